"""Well-known wrong versions of a factor, each with the sentence that it earns."""

import torch
from torch.nn import functional as F


def slips(known, base):
    """Well-known wrong versions of a factor: (sentence, tensor with the factor's axes)."""
    of = known.of
    if base == "1 - h**2":
        h = of["h"]
        wrong = {
            "1 - h": 1 - h,
            "1 + h**2": 1 + h**2,
            "h": h,
            "h**2": h**2,
            "h * (1 - h)": h * (1 - h),
            "2 * h": 2 * h,
        }
        wrong |= {
            "1 - |h|": 1 - h.abs(),
            "(1 - h)**2": (1 - h) ** 2,
            "1 - tanh(h)**2": 1 - torch.tanh(h) ** 2,
        }
        if "hpreact" in of:
            wrong["1 - hpreact**2"] = 1 - of["hpreact"] ** 2
        for slip, tensor in wrong.items():
            yield f"{slip} is not the derivative of tanh.", tensor
    if base in ("target", "maximum"):
        target = of[base]
        hit = "the targets'" if base == "target" else "the maxima's"
        everywhere = (target.sum(0, keepdim=True) > 0).double().expand_as(target)
        yield f"all rows are written in {hit} columns; a row has only its own.", everywhere
        yield "every entry is written; a row has only its own target.", torch.ones_like(target)
        for shift in (1, -1):
            yield f"{hit} columns are one off.", target.roll(shift, 1)
            yield "a row has the target of its neighbour.", target.roll(shift, 0)
        if "letters" in of:
            yield (
                "the columns are those of the context's last letter (Xb), not of the target.",
                of["letters"][:, -1],
            )
    if base == "probs" and "logits" in of:
        logits = of["logits"]
        yield "the softmax runs along the wrong axis.", logits.softmax(0)
        yield "the softmax is not normalised.", logits.exp()
        yield "the softmax was taken twice.", logits.softmax(1).softmax(1)
        yield (
            "probs * (1 - probs) is the derivative of a sigmoid, not of this.",
            of["probs"] * (1 - of["probs"]),
        )
    if base == "letters":
        letters = of["letters"]
        flat = letters.flatten(0, 1)
        seen = flat.cumsum(0)
        lost = "of a letter that occurs more than once only one row arrives: assigned, not added."
        yield lost, (flat * (seen == seen[-1:])).view_as(letters)
        yield lost, (flat * (seen == 1)).view_as(letters)
        yield (
            "rows of the same letter are averaged, not added.",
            (flat / seen[-1:].clamp(min=1)).view_as(letters),
        )
        for k in range(letters.shape[1]):
            only = torch.zeros_like(letters)
            only[:, k] = letters[:, k]
            yield f"only position {k} of the context arrives.", only
            if letters.shape[1] > 2:
                yield f"position {k} of the context is left out.", letters - only
            yield (
                "one position's letters are used for all of the context.",
                letters[:, k : k + 1].expand_as(letters),
            )
        yield "the context's positions stand in reverse order.", letters.flip(1)
        if "target" in of:
            yield (
                "it is added at the targets (Yb), not at the letters that were read.",
                of["target"][:, None].expand_as(letters),
            )
        swapped = letters.argmax(2).T.reshape(letters.shape[:2])
        yield (
            "rows and letters are paired in another order: the index is transposed.",
            F.one_hot(swapped, letters.shape[2]).double(),
        )
