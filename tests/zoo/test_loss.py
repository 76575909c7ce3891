from __future__ import annotations

import torch

from pipeline.zoo.hidden import LIKELIEST
from pipeline.zoo.loss import FREQUENT, SAMPLED, SOFT_SHARE, Labels, Vocabulary, labels_at
from pipeline.zoo.windows import Window

HIDDEN, TOKENS = 16, 8_000


def vocabulary(ids: torch.Tensor | None = None, seed: int = 0) -> Vocabulary:
    torch.manual_seed(1)
    embedding = torch.randn(TOKENS, HIDDEN).to(torch.bfloat16)
    return Vocabulary(embedding, torch.arange(TOKENS) if ids is None else ids, seed)


def labels(rows: int, among: int = TOKENS) -> Labels:
    torch.manual_seed(2)
    best = torch.stack([torch.randperm(among)[:LIKELIEST] for _ in range(rows)])
    probabilities = torch.softmax(torch.randn(rows, LIKELIEST), dim=-1)
    return Labels(best, probabilities, torch.ones(rows, dtype=torch.bool))


def test_the_sampled_loss_estimates_the_one_over_all_tokens() -> None:
    outputs, wanted = torch.randn(64, HIDDEN) * 0.5, labels(64)
    # Only the first choice is sure to be among the candidates: leave the others out.
    wanted.probabilities[:, 1:] = 0
    embedding = vocabulary()._embedding
    full = torch.nn.functional.cross_entropy(
        outputs.to(torch.bfloat16).float() @ embedding.float().T, wanted.best[:, 0]
    )

    estimates = [float(vocabulary(seed=s).loss(outputs, wanted).mean()) for s in range(20)]

    assert abs(sum(estimates) / len(estimates) - float(full)) < 0.05


def test_a_first_choice_outside_the_draft_vocabulary_teaches_nothing() -> None:
    small = vocabulary(torch.arange(4_000))
    wanted = labels(8)
    wanted.best[:4, 0], wanted.best[4:, 0] = 5_000, 7

    loss = small.loss(torch.randn(8, HIDDEN), wanted)

    assert (loss[:4] == 0).all()
    assert (loss[4:] > 0).all()


def test_candidates_hold_the_frequent_the_labels_and_no_token_twice() -> None:
    ids, offsets = vocabulary().candidates(torch.tensor([7_999, -1]))

    assert len(ids.unique()) == len(ids)
    assert set(range(FREQUENT)) | {7_999} <= set(ids.tolist())
    assert len(ids) <= FREQUENT + SAMPLED + 1
    assert (offsets[: FREQUENT + 1] == 0).all()
    assert (offsets[FREQUENT + 1 :] > 0).all()


def test_greedy_drafting_looks_at_the_whole_draft_vocabulary_and_nothing_else() -> None:
    ids = torch.tensor([17, 3, 4_000, 512])
    small = vocabulary(ids)
    rows = small._embedding[torch.tensor([4_000, 17])].float()

    assert small.argmax(rows * 10).tolist() == [4_000, 17]
    assert set(small.argmax(torch.randn(200, HIDDEN)).tolist()) <= set(ids.tolist())


def test_the_loss_prefers_what_the_target_prefers() -> None:
    wanted = labels(4)
    words = vocabulary()
    aligned = words._embedding[wanted.best[:, 0]].float()

    assert words.loss(aligned, wanted).mean() < words.loss(-aligned, wanted).mean()
    assert 0 < SOFT_SHARE < 1


def test_labels_are_the_targets_view_just_before_the_drafted_column() -> None:
    columns, rows = 9, 2
    best = torch.arange(columns)[None, :, None].expand(rows, columns, LIKELIEST).clone()
    best[:, :3] = -1
    window = Window(
        tokens=torch.zeros(rows, columns, dtype=torch.long),
        streams=torch.zeros(rows, columns, 1),
        best=best,
        log_probabilities=torch.zeros(rows, columns, LIKELIEST),
        first=torch.zeros(rows, dtype=torch.long),
        end=torch.tensor([9, 7]),
        prompt=4,
        whole=torch.ones(rows, dtype=torch.bool),
    )

    found = labels_at(window, torch.tensor([5, 6, 7]), step=1)

    assert found.best[0, :, 0].tolist() == [5, 6, 7]
    assert found.valid.tolist() == [[True, True, True], [True, False, False]]
