"""Eight wrong derivations, each as a training step that is right but for one thing."""

import numpy as np

from .train_numpy import Step


class BesselForgotten(Step):
    """BatchNorm's backward divides by n where the forward pass divided by n - 1."""

    def batchnorm(self):
        self.var_eps *= self.n / (self.n - 1)
        super().batchnorm()


class NoVarianceTerm(Step):
    """BatchNorm's backward without the path through the variance."""

    def batchnorm(self):
        self.var_eps[:] = np.inf
        super().batchnorm()


class NoMeanTerm(Step):
    """BatchNorm's backward without the path through the mean; b1's gradient is then not zero."""

    def __init__(self, params, **sizes):
        super().__init__(params, **sizes)
        self.share = np.zeros_like(self.b1)

    def first_layer(self):
        self.X += self.x_mean[self.k]  # not centred: nothing takes the mean along
        np.dot(self.X.T, self.dh, out=self.dW1)
        np.dot(self.dh, self.W1.T, out=self.dX)
        self.db1 = self.dh.sum(0)

    def running(self):
        super().running()
        self.share = 0.999 * self.share + 0.001 * self.b1
        self.b1 -= self.db1

    def b1_share(self, steps):
        return self.share


class NoTanhDerivative(Step):
    """dhpreact = dh."""

    def tanh(self):
        pass


class Assigned(Step):
    """dC[Xb] = demb: of a letter that occurs more than once, only the last row counts."""

    def embedding(self):
        self.dC[:] = 0
        self.dC[self.letters[self.k].argmax(1)] = self.demb


class Swapped(Step):
    """dbngain and dbnbias change places in the update; their shapes are the same."""

    def batchnorm(self):
        super().batchnorm()
        self.dgain[:], self.dbias[:] = self.dbias.copy(), self.dgain.copy()


class FromDembcat(Step):
    """dW1 = dembcat.T @ dhprebn in place of embcat.T @ dhprebn; the shapes fit."""

    def first_layer(self):
        super().first_layer()
        self.dh -= self.over_n @ self.dh  # here dhprebn itself is needed
        np.dot(self.dX.T, self.dh, out=self.dW1)
        self.dW1 /= self.rates[self.k]  # both factors carry the learning rate


class SummedLoss(Step):
    """The gradient of the loss summed over the batch, at the learning rate of the mean."""

    def logits_group(self):
        super().logits_group()
        self.dlogits *= self.n


WRONG = {
    "n for n - 1": BesselForgotten,
    "no variance term": NoVarianceTerm,
    "no mean term": NoMeanTerm,
    "no tanh derivative": NoTanhDerivative,
    "dC assigned": Assigned,
    "dbngain, dbnbias swapped": Swapped,
    "dW1 from dembcat": FromDembcat,
    "sum for mean": SummedLoss,
}
