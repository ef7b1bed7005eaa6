"""What the tests share: a pass of any shape in float64, built from random letters."""

import os
import random
import threading

import pytest
import torch
import tqdm

from makemore_bp import compare
from makemore_bp.model import Params, forward

# tensors as small as these gain nothing from more
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
# not tqdm's own lock: mutmut's processes would share it, and one that dies while it has it stops them all
tqdm.tqdm.set_lock(threading.RLock())


def make_params(hidden=8, vocab=27, embedding=10, context=3, seed=0, dtype=torch.float64):
    """Random parameters of other sizes than the course's, none of them zero."""
    g = torch.Generator().manual_seed(seed)
    shapes = [
        (vocab, embedding),
        (context * embedding, hidden),
        (hidden,),
        (hidden, vocab),
        (vocab,),
        (1, hidden),
        (1, hidden),
    ]
    scale = [1.0, 0.3, 0.1, 0.3, 0.1, 0.3, 0.1]
    drawn = [torch.randn(s, generator=g, dtype=torch.float64) * k for s, k in zip(shapes, scale, strict=True)]
    drawn[5] += 1
    return Params(*(t.to(dtype).requires_grad_() for t in drawn))


def make_batch(n=32, vocab=27, context=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (n, context), generator=g), torch.randint(vocab, (n,), generator=g)


def make_pass(n=32, hidden=8, seed=0, dtype=torch.float64, change=None, **sizes):
    """A forward pass with backward() done; `change(params, Xb, Yb)` may alter its inputs in place."""
    params = make_params(hidden, seed=seed, dtype=dtype, **sizes)
    Xb, Yb = make_batch(n, sizes.get("vocab", 27), sizes.get("context", 3), seed)
    if change:
        with torch.no_grad():
            change(params, Xb, Yb)
    v = forward(params, Xb, Yb)
    v.loss.backward()
    return v


@pytest.fixture(autouse=True)
def fresh_cmp():
    """No test sees a pass that another one watched; random numbers start anew."""
    random.seed(0)
    compare.cmp.forget()
    yield
    compare.cmp.forget()
