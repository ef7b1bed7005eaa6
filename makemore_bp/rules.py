"""The steps of the forward pass, as data: what the notebooks, the graph's drawing and the tests share."""

from typing import NamedTuple


class Step(NamedTuple):
    """One node of the graph and the line of the forward pass that computes it."""

    name: str
    line: str  # right-hand side
    reads: tuple  # the nodes that stand on it
    shape: str  # in n (batch), H (hidden units), V = 27
    group: str
    notebook: int  # where its gradient is derived


_STEPS = """
C               |                                    |                        | V × 10     | parameter     | 6
W1              |                                    |                        | 30 × H     | parameter     | 6
b1              |                                    |                        | H          | parameter     | 6
bngain          |                                    |                        | 1 × H      | parameter     | 5
bnbias          |                                    |                        | 1 × H      | parameter     | 5
W2              |                                    |                        | H × V      | parameter     | 4
b2              |                                    |                        | V          | parameter     | 4
emb             | C[Xb]                              | C                      | n × 3 × 10 | first layer   | 6
embcat          | emb.view(n, -1)                    | emb                    | n × 30     | first layer   | 6
hprebn          | embcat @ W1 + b1                   | embcat W1 b1           | n × H      | first layer   | 5
bnmeani         | hprebn.sum(0, keepdim=True) / n    | hprebn                 | 1 × H      | BatchNorm     | 5
bndiff          | hprebn - bnmeani                   | hprebn bnmeani         | n × H      | BatchNorm     | 5
bndiff2         | bndiff**2                          | bndiff                 | n × H      | BatchNorm     | 5
bnvar           | bndiff2.sum(0, keepdim=True) / (n - 1) | bndiff2            | 1 × H      | BatchNorm     | 5
bnvar_inv       | (bnvar + eps)**-0.5                | bnvar                  | 1 × H      | BatchNorm     | 5
bnraw           | bndiff * bnvar_inv                 | bndiff bnvar_inv       | n × H      | BatchNorm     | 5
hpreact         | bngain * bnraw + bnbias            | bngain bnraw bnbias    | n × H      | BatchNorm     | 4
h               | torch.tanh(hpreact)                | hpreact                | n × H      | second layer  | 4
logits          | h @ W2 + b2                        | h W2 b2                | n × V      | second layer  | 3
logit_maxes     | logits.max(1, keepdim=True).values | logits                 | n × 1      | cross-entropy | 3
norm_logits     | logits - logit_maxes               | logits logit_maxes     | n × V      | cross-entropy | 3
counts          | norm_logits.exp()                  | norm_logits            | n × V      | cross-entropy | 3
counts_sum      | counts.sum(1, keepdim=True)        | counts                 | n × 1      | cross-entropy | 3
counts_sum_inv  | counts_sum**-1                     | counts_sum             | n × 1      | cross-entropy | 3
probs           | counts * counts_sum_inv            | counts counts_sum_inv  | n × V      | cross-entropy | 3
logprobs        | probs.log()                        | probs                  | n × V      | cross-entropy | 3
loss            | -logprobs[range(n), Yb].mean()     | logprobs               | scalar     | cross-entropy | 3
"""


def _parse(row):
    name, line, reads, shape, group, notebook = (field.strip() for field in row.split("|"))
    return Step(name, line, tuple(reads.split()), shape, group, int(notebook))


STEPS = {step.name: step for step in map(_parse, _STEPS.strip().splitlines())}

# the 26 gradients, in the order in which they can be computed
GRADIENTS = """
logprobs probs counts_sum_inv counts_sum counts norm_logits logit_maxes logits
h W2 b2 hpreact
bngain bnbias bnraw bnvar_inv bnvar bndiff2 bndiff bnmeani hprebn
embcat W1 b1 emb C
""".split()


def uses(name: str) -> tuple[str, ...]:
    """The nodes on whose right-hand side `name` stands: that many uses, that many terms."""
    return tuple(step.name for step in STEPS.values() if name in step.reads)
