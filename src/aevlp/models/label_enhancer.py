"""Label enhancement: a network that estimates soft labels from features over a graph of similar images.

| symbol  | name           | meaning                                                        |
| ------- | -------------- | -------------------------------------------------------------- |
| x       | features       | [N, D], standardised                                           |
| A       | Graph.links    | [N, N], 1 between neighbours and on the diagonal               |
| h       | latent         | [N, LATENT], signed                                            |
| d       | soft           | [N, C], the soft labels                                        |
| ^       | rebuilt_*      | x, y and A as the network reconstructs them from d and h       |
"""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from aevlp.losses.an import an

HIDDEN, LATENT = 128, 64
BATCH = 64  # images per step: few, because a small image set in one pass per epoch needs many steps
LEAST = 0.01  # KL and its gradient are unbounded as d approaches 0 or 1
DISTANCES = 2**25  # held at a time: 128 MB, however many images there are


def standardised(features: Tensor) -> Tensor:
    """Return float32 [N, D]: each column with mean 0 and standard deviation 1; a constant column becomes 0."""
    deviation, mean = torch.std_mean(features.float(), dim=0, correction=0)
    return (features - mean).div_(deviation.clamp(min=1e-6))


def nearest(features: Tensor, count: int) -> Tensor:
    """Return int64 [N, count]: each row's nearest other rows by Euclidean distance, on the features' device; at most N - 1."""
    norms = features.square().sum(1)
    found = []
    for rows in torch.split(torch.arange(len(features)), max(DISTANCES // len(features), 1)):
        # Squared, and without the row's own norm, which does not change the order.
        distances = torch.addmm(norms, features[rows], features.T, alpha=-2)
        distances[torch.arange(len(rows)), rows] = torch.inf
        found.append(distances.topk(min(count, len(features) - 1), largest=False).indices)
    return torch.cat(found)


class Graph:
    """A graph of images: two are linked if either is among the nearest of the other; each is linked to itself."""

    def __init__(self, features: Tensor, neighbours: int, device: torch.device | None = None) -> None:
        self.nearest = nearest(features.to(device), neighbours).cpu()

    def averaged(self, features: Tensor) -> Tensor:
        """Return [N, D]: the mean of each row over all rows that it is linked to."""
        count, each = self.nearest.shape
        itself = torch.arange(count)
        one, other = itself.repeat_interleave(each), self.nearest.flatten()
        edges = torch.stack([torch.cat([one, other, itself]), torch.cat([other, one, itself])])
        counts = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (count, count), check_invariants=True)
        links = counts.coalesce().indices()  # a mutual pair appears once
        shares = (1 / links[0].bincount())[links[0]]
        return torch.sparse_coo_tensor(links, shares, (count, count), check_invariants=True) @ features

    def links(self, rows: Tensor) -> Tensor:
        """Return float32 [B, B]: 1 where two of these rows are linked, else 0."""
        position = torch.full((len(self.nearest),), -1)
        position[rows] = torch.arange(len(rows))
        links = torch.eye(len(rows))
        one, which = (position[self.nearest[rows]] >= 0).nonzero(as_tuple=True)
        links[one, position[self.nearest[rows[one], which]]] = 1
        return links.maximum(links.T)


class Output(NamedTuple):
    """The network's output for a batch."""

    soft: Tensor  # logits of d [B, C]
    rebuilt_features: Tensor  # [B, D]
    rebuilt_labels: Tensor  # logits [B, C]
    rebuilt_links: Tensor  # [B, B] in (0, 1)


class Network(nn.Module):
    """An autoencoder: features averaged over the graph -> soft labels -> features, labels and links."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, LATENT))
        self.label = nn.Linear(LATENT, classes)
        self.to_features = nn.Linear(classes + LATENT, width)
        self.to_labels = nn.Linear(classes, classes)

    def soft(self, averaged: Tensor) -> Tensor:
        """Return the soft labels d [N, C] in (0, 1)."""
        d: Tensor = self.label(self.encoder(averaged)).sigmoid()
        return d

    def forward(self, averaged: Tensor) -> Output:
        """Return everything that the loss compares."""
        latent = self.encoder(averaged)
        soft = self.label(latent)
        d = soft.sigmoid()
        return Output(soft, self.to_features(torch.cat([d, latent], 1)), self.to_labels(d), (latent @ latent.T).sigmoid())


def divergence_from_uniform(d: Tensor) -> Tensor:
    """Return KL(Beta(d, 1 - d) || Beta(1, 1)) of every cell, d clamped to [LEAST, 1 - LEAST]; its minimum, 0.24, is at 1/2."""
    a = d.clamp(LEAST, 1 - LEAST)
    b = 1 - a
    return (a - 1) * a.digamma() + (b - 1) * b.digamma() + torch.ones_like(a).digamma() - a.lgamma() - b.lgamma()


def enhancement_loss(output: Output, features: Tensor, observed: Tensor, links: Tensor, *, gamma: float, delta: float) -> Tensor:
    """Return AN(d, y) + gamma (|x^ - x|^2 + AN(y^, y) + |A^ - A|^2) + delta KL(Beta(d, 1 - d) || Beta(1, 1)), all means."""
    rebuilt = (
        mse_loss(output.rebuilt_features, features) + an(output.rebuilt_labels, observed) + mse_loss(output.rebuilt_links, links)
    )
    divergence = divergence_from_uniform(output.soft.sigmoid()).mean()
    return an(output.soft, observed) + gamma * rebuilt + delta * divergence


class Enhancement:
    """A network and its optimiser, on the CPU."""

    def __init__(self, width: int, classes: int, *, gamma: float, delta: float, learning_rate: float, seed: int) -> None:
        self.width, self.gamma, self.delta = width, gamma, delta
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the other devices as well
            self.network = Network(width, classes)
        self.adam = torch.optim.Adam(self.network.parameters(), lr=learning_rate)

    def learn(self, features: Tensor, graph: Graph, observed: Tensor, generator: torch.Generator) -> Tensor:
        """Train for one epoch over the images, in an order that the generator draws, and return the soft labels d [N, C]."""
        averaged = graph.averaged(features)
        with torch.enable_grad():
            for rows in torch.split(torch.randperm(len(features), generator=generator), BATCH):
                output, links = self.network(averaged[rows]), graph.links(rows)
                loss = enhancement_loss(output, features[rows], observed[rows], links, gamma=self.gamma, delta=self.delta)
                self.adam.zero_grad()
                torch.autograd.backward(loss)
                self.adam.step()
        with torch.no_grad():
            return self.network.soft(averaged)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"width": self.width, "network": self.network.state_dict(), "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.network.load_state_dict(state["network"])
        self.adam.load_state_dict(deepcopy(state["adam"]))  # it would write into the tensors of `state`
