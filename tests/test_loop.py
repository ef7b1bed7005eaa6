"""StepCheck: a training step with the slips that no cmp sees, each told from the others."""

import pytest
import torch
from conftest import make_batch, make_params

from makemore_bp.backward import backward_six, bn_backward, cross_entropy_backward
from makemore_bp.loop import StepCheck
from makemore_bp.model import Params, forward_merged


def losses(backwards=backward_six, change=None, give=False, hidden=12, steps=2):
    """A few right updates with a forward pass that `change(v, Xb, Yb)` has made another one."""
    params = make_params(hidden=hidden, dtype=torch.float32)
    check = StepCheck(params)
    for i in range(steps):
        Xb, Yb = make_batch(n=24, seed=i)
        check.begin(Xb, Yb)
        v = (change or forward_merged)(params, Xb, Yb)
        with torch.no_grad():
            grads = backwards(v)
            for p, gradient in zip(params, grads):
                descend(p, gradient, 0.1)
        check.end(list(grads), 0.1, **({"loss": v.loss} if give else {}))
    return check


def descend(p, gradient, lr):
    p.data += -lr * gradient


def train(
    spoil=lambda grads, v, memory: grads, update=descend, backward=False, steps=4, dtype=torch.float32, **how
):
    """A few steps by hand; `spoil` changes the gradients, `update` what is done with them."""
    params, memory = make_params(hidden=12, dtype=dtype), {}
    check = StepCheck(how.pop("parameters", list)(params), **how)
    for i in range(steps):
        Xb, Yb = make_batch(n=24, seed=i)
        check.begin(Xb, Yb)
        v = forward_merged(params, Xb, Yb, retain=False)
        if backward:
            for p in params:
                p.grad = None
            v.loss.backward()
        with torch.no_grad():
            grads = spoil(backward_six(v), v, memory)
            for p, gradient in zip(params, grads):
                update(p, gradient, 0.1)
        check.end(list(grads), 0.1)
    return check


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "update",
    [descend, lambda p, g, lr: p.data.sub_(lr * g), lambda p, g, lr: p.sub_(g, alpha=lr)],
)
@pytest.mark.parametrize("parameters", [list, lambda p: p, Params._asdict])
def test_a_right_step(dtype, update, parameters, capsys):
    check = train(dtype=dtype, update=update, parameters=parameters)
    assert check.report() and check.watched == 3
    assert capsys.readouterr().out.startswith("3 steps watched: every gradient is the true one")


def told(check, name):
    assert not check
    return " ".join(text for _, problem, text in check.problems if problem == name)


def test_the_gradient_of_an_earlier_batch():
    def mistyped(grads, v, memory):
        return grads._replace(W1=memory.setdefault("W1", grads.W1))

    assert "has not changed since step 0" in told(train(mistyped), "W1")

    def late(grads, v, memory):
        before, memory["W2"] = memory.get("W2", grads.W2), grads.W2
        return grads._replace(W2=before.clone())

    assert "belongs to the batch of step 1" in told(train(late), "W2")


def test_swapped_and_misordered():
    check = train(lambda grads, v, memory: grads._replace(bngain=grads.bnbias, bnbias=grads.bngain))
    assert told(check, "bngain").startswith("it is dbnbias: the two have changed places")
    check = train(lambda grads, v, memory: grads._replace(bngain=grads.bnbias))
    assert told(check, "bngain").startswith("it is dbnbias: the order does not match")
    assert {name for _, name, _ in check.problems} == {"bngain"}


def test_dW1_from_dembcat():
    def slip(grads, v, memory):
        dhpreact = (1 - v.h**2) * (cross_entropy_backward(v.logits, v.Yb) @ v.W2.T)
        dhprebn = bn_backward(dhpreact, v.bnraw, v.bngain, v.bnvar_inv)
        return grads._replace(W1=(dhprebn @ v.W1.T).T @ dhprebn)

    assert "dembcat, a gradient, stands where a forward value belongs" in told(train(slip), "W1")


def test_autograds_own():
    check = train(
        lambda grads, v, memory: Params(*(p.grad for p in (v.C, v.W1, v.b1, v.W2, v.b2, v.bngain, v.bnbias))),
        backward=True,
    )
    assert all("autograd's own" in text for _, _, text in check.problems) and len(check.problems) == 21
    check = train(update=lambda p, g, lr: p.data.add_(-lr * p.grad), backward=True)
    assert "the update does not use yours" in told(check, "W1")


def test_gradients_of_ones_own_kept_in_grad():
    """With an optimizer one's own gradients have to stand in .grad; they are no copies of autograd's."""
    params = make_params(hidden=12, dtype=torch.float32)
    check, optimizer = StepCheck(params), torch.optim.SGD(params, lr=0.1)
    for i in range(3):
        Xb, Yb = make_batch(n=24, seed=i)
        check.begin(Xb, Yb)
        for p, gradient in zip(params, backward_six(forward_merged(params, Xb, Yb, retain=False))):
            p.grad = gradient.detach()
        optimizer.step()
        check.end([p.grad for p in params], 0.1)
    assert check, str(check)
    assert not any(p._post_accumulate_grad_hooks for p in params)  # it stops listening


def test_under_inference_mode():
    with torch.inference_mode():
        assert train()
        assert "-2 times the true one" in told(
            train(lambda grads, v, m: grads._replace(W1=-2 * grads.W1)), "W1"
        )


def test_missing_and_misshapen():
    check = train(lambda grads, v, memory: list(grads)[:6])
    assert "6 gradients for 7 parameters" in told(check, "") and "there is none" in told(check, "bnbias")
    check = train(
        lambda grads, v, memory: grads._replace(b2=grads.b2[None]),
        lambda p, g, lr: p.data.add_(-lr * g.view(p.shape)),
    )
    assert "the shape is (1, 27)" in told(check, "b2")
    check = train(
        lambda grads, v, memory: grads._replace(b1=None), lambda p, g, lr: g is None or descend(p, g, lr)
    )
    assert "to do" in told(check, "b1")


def test_how_the_parameters_moved():
    assert "uphill" in told(train(update=lambda p, g, lr: descend(p, g, -lr)), "W1")
    assert "moved by -0.01 times its gradient, and lr is 0.1" in told(
        train(update=lambda p, g, lr: descend(p, g, 0.01)), "C"
    )
    assert "did not move" in told(train(update=lambda p, g, lr: None), "W2")
    copies = train(update=lambda p, g, lr: descend(p.clone(), g, lr))  # only a copy was updated
    assert "did not move" in told(copies, "bngain")


def test_another_model_with_its_own_loss():
    w = torch.ones(3, requires_grad=True)
    check = StepCheck({"w": w}, loss=lambda p, X, Y: ((X @ p["w"] - Y) ** 2).mean())
    for i in range(3):
        X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(i)), torch.zeros(8)
        check.begin(X, Y)
        with torch.no_grad():
            grad = 2 * X.T @ (X @ w - Y) / 8 * (1 if i < 2 else 8)
            w -= 0.1 * grad
        check.end({"w": grad}, 0.1)
    assert [(step, text.split(".")[0]) for step, _, text in check.problems] == [
        (2, "every entry is 8 times the true one")
    ]


def test_it_leaves_the_generators_and_the_gradients_alone():
    params = make_params(hidden=4, dtype=torch.float32)
    state, check = torch.get_rng_state(), StepCheck(params)
    with torch.no_grad():
        check.begin(*make_batch(n=6))
    assert torch.equal(state, torch.get_rng_state()) and all(p.grad is None for p in params)


def test_arguments():
    with pytest.raises(ValueError, match="2 parameters and 7 names"):
        StepCheck([torch.ones(1), torch.ones(1)])
    with pytest.raises(ValueError, match="give loss="):
        StepCheck([torch.ones(1)], names=["w"])
    assert str(StepCheck(make_params())).startswith("no step was watched")


def test_another_forward_pass_is_told_in_one_line():
    def softer(params, Xb, Yb):
        v = forward_merged(params, Xb, Yb, retain=False)
        v.logits = v.logits * 0.8
        v.loss = torch.nn.functional.cross_entropy(v.logits, Yb)
        return v

    assert losses() and losses(give=True)
    check = losses(change=softer)
    assert "Many are off at once: is the forward pass, or the loss, the course's" in told(check, "")
    assert not any("largest difference" in text for _, _, text in check.problems)
    check = losses(change=softer, give=True)
    assert "your loss is" in told(check, "") and "Many" not in str(check)


def test_where_to_look():
    def before(place):
        def backwards(v):
            grads = backward_six(v)
            noise = lambda t: t + 0.01 * torch.rand(t.shape, generator=torch.Generator().manual_seed(1))  # noqa: E731
            return grads._replace(**{name: noise(getattr(grads, name)) for name in place})

        return backwards

    for place, sentence in [
        (["W1", "C"], "dW2, db2, dbngain and dbnbias are right, so look between hpreact and hprebn."),
        (["C"], "dW2, db2, dbngain, dbnbias and dW1 are right, so look between hprebn and C."),
        (["W1", "C", "b1", "bngain", "bnbias"], "dW2 and db2 are right, so look between logits and hpreact."),
    ]:
        assert sentence in told(losses(before(place)), "")
    assert told(losses(before(["W2"])), "") == ""
    everything = before(["W1", "C", "W2", "b2", "bngain", "bnbias"])
    assert "the loss is right, so look between the loss and logits" in told(losses(everything, give=True), "")
