"""Every drawing of the course, one module per topic, in one style."""
