"""Sums that were not taken or ran along the wrong axis, and what else gives a gradient the wrong shape."""

from itertools import combinations

from .terms import AXES, AXIS, TERMS, fits


def reductions(known, name):
    """Other sums of a gradient's product than the right one: pairs (sentence, (axes, tensor)).

    For gradients of one term: `known` (a `Known`) gives its factors.
    """
    terms = TERMS[name]
    if len(terms) != 1 or any(f.base not in known.of for f in terms[0].factors):
        return
    pairs = [known.factor(f) for f in terms[0].factors]
    axes = "".join(sorted({a for part, _ in pairs for a in part}))
    own = set(AXES[name])
    for out in ("".join(letters) for count in range(len(axes) + 1) for letters in combinations(axes, count)):
        if set(out) == own or (own >= set(axes)):
            continue
        text = "a sum runs along the wrong axis."
        if set(out) > own:
            text = f"a sum over the {' and the '.join(AXIS[a] for a in out if a not in own)} axis is missing."
        elif not out:
            text = "a sum runs over everything, and not along one axis."
        yield text, (out, known.number(terms[0]) * known.product(pairs, out))


def shape_cause(search):
    """Add to the search (a `Search`) what a tensor of another shape is, where its values tell."""
    y, t, floor = search.yours, search.truth, search.floor
    mine, true = search.shapes
    right = "the values are right"

    def agree(a, b):
        return a.shape == b.shape and fits(a, b, search.tolerance, floor)

    repeated = [i for i, k in enumerate(mine) if k > 1 and _stands_for_all(i, mine, true)]
    if y.numel() == t.numel() and agree(y.reshape(true), t):
        if [k for k in mine if k > 1] != [k for k in true if k > 1]:
            search.add(0, f"{right}, in another arrangement: is it to be reshaped?")
        elif len(mine) < len(true):
            search.add(0, f"{right}; it has lost a dimension of length 1 (keepdim).")
        else:
            search.add(
                0,
                f"{right}; a dimension of length 1 {'is too many' if len(mine) > len(true) else 'stands elsewhere'}.",
            )
    elif y.dim() == 2 and agree(y.T, t):
        search.add(0, "it is transposed.")
    elif not floor and _broadcasts(mine, true) and agree(y.expand(true), t):
        search.add(
            0, f"{right}, but only broadcasting spreads them: every entry of the variable has its own."
        )
    elif _broadcasts(true, mine) and repeated:
        if agree(y.sum(repeated, keepdim=True).reshape(true), t):
            search.add(
                0, f"a sum is missing: over axis {', '.join(map(str, repeated))} it gives the true gradient."
            )
        elif not floor and agree(y, t.expand(mine)):
            search.add(0, f"{right}, only repeated: the variable has each of them once.")
    if not search.found and not floor and y.numel() == t.numel() > 1 and t.any():
        _keepdim_and_factor(search)
    if not search.found and search.known and search.name in TERMS:
        _other_sums(search, agree)
    if not search.found and not floor and y.dim() <= t.dim():
        for axes in (a for count in range(1, t.dim() + 1) for a in combinations(range(t.dim()), count)):
            guess = t.sum(axes)
            if guess.numel() == y.numel() < t.numel() and agree(y.reshape(guess.shape), guess):
                over = ", ".join(map(str, axes))
                search.add(3, f"a sum too many: this is the right gradient, summed over axis {over}.")


def _keepdim_and_factor(search):
    """Only dimensions of length 1 differ, and besides all entries have one factor, -1 say."""
    mine, true = search.shapes
    if [k for k in mine if k > 1] != [k for k in true if k > 1]:
        return
    y, t = search.yours.reshape(true), search.truth
    scale = ((y * t).sum() / (t * t).sum()).item()
    if search.named(scale, 1e-3) and search.fits(scale * t, y):
        what = "it has lost a dimension of length 1 (keepdim)"
        if len(mine) >= len(true):
            what = f"a dimension of length 1 {'is too many' if len(mine) > len(true) else 'stands elsewhere'}"
        search.add(0, f"{what}, and besides, {search.every_entry(scale)}")


def _other_sums(search, agree):
    """Another sum of the same product, or another gradient."""
    known, y = search.known, search.yours
    for text, (_, guess) in reductions(known, search.name):
        if guess.numel() == y.numel() and agree(y.reshape(guess.shape), guess):
            search.add(1, text)
    for other in TERMS:
        guess = known.of.get("d" + other)
        if other != search.name and guess is not None and guess.numel() == y.numel() > 1:
            if agree(y.reshape(guess.shape), guess):
                search.add(2, f"this is d{other}, the gradient of another variable.")


def _stands_for_all(i, mine, true):
    """Whether axis i of `mine` is one that `true` has not, or has with length 1."""
    i -= len(mine) - len(true)
    return i < 0 or true[i] == 1


def _broadcasts(small, large):
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small[::-1], large[::-1]))
