"""The text job as it is written by hand with scikit-learn: split by author, TF-IDF, logistic regression, latent semantic analysis.

python benchmarks/peers/text_sklearn.py --messages FILE.parquet --out DIR
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline


def run(path: str, out: Path) -> None:
    """The whole job."""
    messages = pl.read_parquet(path).unique("message", keep="first").filter(pl.col("text").str.len_chars() > 0).sort("message")
    drawn = messages["author"].map_elements(lambda author: zlib.crc32(author.encode()) / 2**32, return_dtype=pl.Float64).to_numpy()
    split = np.where(drawn < 0.7, "train", np.where(drawn < 0.8, "validation", "test"))
    words = messages["text"].to_list()
    group, train, test = messages["group"].to_numpy(), split == "train", split == "test"
    counts = HashingVectorizer(n_features=2048, alternate_sign=False, norm=None)
    weighed = make_pipeline(counts, TfidfTransformer()).fit([word for word, one in zip(words, train, strict=True) if one]).transform(words)
    model = LogisticRegression(C=1 / (0.05 * train.sum()), max_iter=200, tol=1e-6).fit(weighed[train], group[train])
    chances = model.predict_proba(weighed)
    axes = TruncatedSVD(40, random_state=0).fit(weighed[train]).transform(weighed)
    near = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(axes[train])
    distance, neighbor = near.kneighbors(axes[test])
    out.mkdir(parents=True, exist_ok=True)
    told = {name: chances[:, at] for at, name in enumerate(model.classes_)}
    messages.select("message", "group").with_columns(pl.Series("split", split), **{n: pl.Series(c) for n, c in told.items()}).write_parquet(
        out / "predictions.parquet"
    )
    asked, known = messages.filter(pl.Series(test)), messages.filter(pl.Series(train))
    alike = asked[np.repeat(np.arange(asked.height), 5)].select("message", "group", "text")
    of = known[neighbor.ravel()].select(pl.col("message", "group", "text").name.prefix("neighbor_"))
    alike.hstack(of).with_columns(pl.Series("distance", distance.ravel())).write_parquet(out / "alike.parquet")
    figures = {
        name: {
            "accuracy": float(accuracy_score(group[one], model.classes_[chances[one].argmax(axis=1)])),
            "log_loss": float(log_loss(group[one], chances[one], labels=model.classes_)),
        }
        for name, one in (("train", train), ("validation", split == "validation"), ("test", test))
    }
    (out / "metrics.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    run(given.messages, given.out)


if __name__ == "__main__":
    main()
