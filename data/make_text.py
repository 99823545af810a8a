"""Makes the text job's input: messages of twenty groups, in the shape of the 20 newsgroups, in words that no language has.

    python data/make_text.py --messages 1600 --out DIR [--seed 20261123]
    python data/make_text.py --messages 18846 --words 150 --out DIR          # as many and as long as the newsgroups' are

A message has words that all use, words of its group's theme and words of its group; quotes what another one said, often; and is signed.
What is sown in on purpose is listed in data/README.md.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

GROUPS = {
    "computers": ("graphics", "hardware", "networks"),
    "home": ("cooking", "garden", "repairs"),
    "market": ("cars", "instruments"),
    "science": ("astronomy", "chemistry", "medicine", "statistics"),
    "sport": ("chess", "cycling", "rowing"),
    "talk": ("books", "politics"),
    "travel": ("mountains", "sailing", "trains"),
}
FIRST_DAY, DAYS = datetime.date(2025, 1, 1), 365
COMMON, OF_THEME, OF_GROUP = 1_500, 80, 60
SHARES = (0.70, 0.16, 0.14)  # of a message's words: common ones, of the theme, of the group
QUOTED, ELSEWHERE, MISFILED = 0.3, 0.25, 0.03  # messages that quote, quotes from another group, messages in the wrong group
EMPTY, MISSING, TWICE = 0.006, 0.004, 0.01
AUTHORS_A_GROUP, SIGNED = 12, 0.6
CONSONANTS, VOWELS = "bcdfghklmnprstvz", "aeiou"

Words = npt.NDArray[np.str_]


def make_words(count: int, rng: np.random.Generator) -> Words:
    """Words of two to four syllables, each once."""
    found = dict[str, None]()
    while len(found) < count:
        syllables = rng.integers(2, 5)
        letters = zip(rng.choice(list(CONSONANTS), syllables), rng.choice(list(VOWELS), syllables), strict=True)
        found["".join(a + b for a, b in letters)] = None
    return np.array([*found])


def drawn(words: Words, count: int, rng: np.random.Generator) -> Words:
    """So many of the words, the first ones most often (Zipf)."""
    chances = 1 / (np.arange(len(words)) + 3.0)
    return rng.choice(words, count, p=chances / chances.sum())


def make_vocabulary(names: list[str], rng: np.random.Generator) -> tuple[Words, dict[str, Words]]:
    """Words that all use, and those of each theme and group."""
    every = make_words(COMMON + OF_THEME * len(GROUPS) + OF_GROUP * len(names), rng)
    common, rest = every[:COMMON], every[COMMON:]
    of_theme = zip(GROUPS, np.split(rest[: OF_THEME * len(GROUPS)], len(GROUPS)), strict=True)
    of_group = zip(names, np.split(rest[OF_THEME * len(GROUPS) :], len(names)), strict=True)
    return common, {**dict(of_theme), **dict(of_group)}


def spoiled(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Some texts are gone, some messages are there twice, and all have a day."""
    messages = table.height
    fate = rng.random(messages)
    text = pl.when(pl.Series(fate < MISSING)).then(None).when(pl.Series(fate < MISSING + EMPTY)).then(pl.lit("")).otherwise("text")
    days = np.sort(rng.integers(0, DAYS, messages))
    written = pl.Series((np.datetime64(FIRST_DAY) + days).astype("datetime64[D]"))
    table = table.with_columns(text.alias("text"), written.alias("written")).select("message", "written", "author", "group", "text")
    again = table.filter(pl.Series(rng.random(messages) < TWICE))
    return pl.concat([table, again]).sort("written", "message")


def make_messages(messages: int, words: int, seed: int) -> pl.DataFrame:
    """Messages in the order of their days: message, written, author, group, text."""
    rng = np.random.default_rng(seed)
    names = [f"{theme}.{group}" for theme, groups in GROUPS.items() for group in groups]
    common, own = make_vocabulary(names, rng)
    lengths = np.clip(rng.lognormal(np.log(words), 0.7, messages), 4, 20 * words).astype(int)
    rows, said = list[dict[str, object]](), dict[str, list[str]]()
    for number, length in enumerate(lengths):
        group = names[rng.integers(len(names))]
        parts = rng.multinomial(length, SHARES)
        sources = (common, own[group.split(".")[0]], own[group])
        body = np.concatenate([drawn(source, part, rng) for source, part in zip(sources, parts, strict=True)])
        rng.shuffle(body)
        place = int(rng.integers(AUTHORS_A_GROUP))
        author = f"{group.split('.')[1]}-{place:02d}"
        text = " ".join(body).capitalize() + "."
        before = said.get(names[rng.integers(len(names))] if rng.random() < ELSEWHERE else group)
        if before and rng.random() < QUOTED:
            text = "> " + before[rng.integers(len(before))][:200].replace("\n", "\n> ") + "\n\n" + text
        said.setdefault(group, []).append(text)
        if rng.random() < SIGNED:
            text += f"\n-- \n{common[-1 - place].capitalize()} {common[-40 - 7 * place].capitalize()}"
        filed = names[rng.integers(len(names))] if rng.random() < MISFILED else group
        rows.append({"message": number, "author": author, "group": filed, "text": text})
    return spoiled(pl.DataFrame(rows), rng)


def main() -> None:
    """Read the command line and write messages.parquet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_600)
    parser.add_argument("--words", type=int, default=60, help="of a message, in the middle")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    made = make_messages(given.messages, given.words, given.seed)
    made.write_parquet(given.out / "messages.parquet", compression="zstd", compression_level=15)


if __name__ == "__main__":
    main()
