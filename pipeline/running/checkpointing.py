"""Keeps what stages made while a plan runs: tables part by part, and what stages gave beside their tables; and takes over what was kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

from pipeline.plan.fingerprints import digest
from pipeline.plan.plan import PlannedStage
from pipeline.results.stage_folder import Piece, StageFolder
from pipeline.results.stage_limits import Limits, keep_within, note_use
from pipeline.results.store import open_store
from pipeline.running.record import Account
from pipeline.running.resuming import PLAIN, KeptTable, Resumption
from pipeline.stage import FittedRows, Rows
from pipeline.tables.keeping import Keep, fitted_of, keep_part, kept_table, known_ranges
from pipeline.tables.measured import Measured
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.steps import Step
from pipeline.tables.table import Fitted, Table

LEAST_S = 5.0  # a run that is younger has lost little


class Checkpointing:
    """What one run keeps and takes over. `accounts` are the run's, `submit_wait` waits for futures and hands their values to a function."""

    def __init__(
        self, resumed: Resumption, session: Session, accounts: dict[str, Account], wait_for: Callable[[str, Sequence[Any], Any], None]
    ) -> None:
        self.resumed, self.session, self.accounts, self._wait_for = resumed, session, accounts, wait_for
        self.plan = resumed.meanings.plan
        self.settings, store = self.plan.job.checkpoints, open_store(self.plan.job.results)
        self.store = store if store.keeps and self.settings.keep and self.settings.gigabytes else None
        self.began = time.time()
        self.kept: dict[str, tuple[Table, int, StageFolder, str]] = {}  # by the table's name, until it is sealed: without its parts
        self.used = {kept.folder.key for kept in (*resumed.tables.values(), *resumed.beside.values()) if isinstance(kept, KeptTable)}
        self.stages = {stage.spec.name: stage for stage in self.plan.stages}
        self.asked = self._asked()

    def keep(self, name: str, table: Table, *, held: bool) -> Table:
        """A stage's table, whose parts are kept as they are made, where that is asked for or may pay; else as it is."""
        stage = self.stages.get(name.partition(".")[0])
        if self.store is None or stage is None or stage.spec.checkpoint is False:
            return table
        always = stage.spec.checkpoint is True
        if not (always or (self.settings.auto and (held or self._is_long(stage, name, spread=bool(table.spread))))):
            return table
        folder = StageFolder(self.store, self.resumed.meanings.table_key(name))
        if self.resumed.fresh or folder.key in self.resumed.damaged:
            folder.remove()
        shape = digest([len(table.blocks), self.session.workers, self.session.threads, self.session.readers])[:8]
        keep = Keep(folder, shape, self.began, always, frozenset(folder.notes()))
        self.kept[name] = (replace(table, blocks=()), len(table.blocks), folder, shape)
        return keep.table(table, held=not self._is_only_written(name))

    def may_keep(self, stage: PlannedStage, name: str) -> bool:
        """Whether `keep` may keep a stage's table, as far as anyone knows before the table is there."""
        if self.store is None or stage.spec.checkpoint is False:
            return False
        held = self.resumed.uses().get(name, 0) > 1
        return stage.spec.checkpoint is True or (self.settings.auto and (held or self._is_long(stage, name, spread=True)))

    def _is_long(self, stage: PlannedStage, name: str, *, spread: bool) -> bool:
        """Whether a table comes from a scan, a training or an exchange between workers, or goes into a training."""
        into = any(other.spec.stage.long == "training" and name in other.spec.inputs.values() for other in self.plan.stages)
        exchanged = self.session.workers > 1 and spread and not isinstance(stage.spec.stage, Rows | FittedRows)
        return into or exchanged or bool(stage.spec.stage.long)

    def _is_only_written(self, name: str) -> bool:
        """Whether one output is all that uses a table, as it is: then the tasks that write its parts make and keep them, and none waits."""
        outputs = [output for output in self.plan.job.outputs.values() if output.table == name]
        alone = len(outputs) == 1 and self.resumed.uses().get(name) == 1 and self.plan.job.counts != "all"
        return alone and self.session.backend == "cpu" and not outputs[0].sort_by and not outputs[0].columns

    def measured(self, name: str | None, measured: Measured) -> None:
        """Told of a table that was made: where all its parts were kept, what belongs to it is, and then the manifest."""
        if name not in self.kept:
            return
        table, count, folder, shape = self.kept.pop(name)
        parts = _by_number(folder, shape)
        if len(parts) < count:
            return
        axes = {array: table.axes[array].value() for array in _arrays(table)}
        small = {**{f"axis-{array}": axis for array, axis in axes.items()}, **_states(table)}
        noted = [self._noted(folder, stem, part, table.stage) for stem, part in small.items()]

        def seal(stems: list[str | None]) -> None:
            """Write the manifest, where all of it is there."""
            pieces = [None if stem is None else folder.noted(stem) for stem in stems]
            if all(pieces):
                self._seal(name, table, folder, (parts, [piece for piece in pieces if piece], measured))

        if noted:
            self._wait_for(f"checkpoint {name}", noted, seal)
        else:
            seal([])

    def _noted(self, folder: StageFolder, stem: str, part: Any, stage: str) -> Any:
        """A future of the name of a small part that belongs to a table, or of None where it could not be kept."""
        if isinstance(part, Step):
            return self.session.evaluate_into(part, _keep_small, folder, stem)
        return self.session.submit(_keep_small, part, folder, stem, stage=stage, on_host=True)

    def _seal(self, name: str, table: Table, folder: StageFolder, of: tuple[list[Piece], list[Piece], Measured]) -> None:
        parts, small, measured = of
        axes = dict(zip(_arrays(table), small, strict=False))
        pieces = iter(small[len(axes) :])
        fitted = [[one.stage, *(asdict(next(pieces)) for _ in _parts_of(one))] for one in table.fitted]
        ranges = _keep_ranges(folder, known_ranges(table))
        document = {
            "table": name,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "pieces": [asdict(piece) for piece in (*parts, *small, *([ranges] if ranges else []))],
            "parts": [asdict(piece) for piece in parts],
            "axes": {array: asdict(piece) for array, piece in axes.items()},
            "fitted": fitted,
            "ranges": asdict(ranges) if ranges else None,
            "spread": list(table.spread),
            "written": None if table.written is None else sorted(table.written),
            "measured": asdict(measured),
            "accounts": self._accounts(name),
        }
        folder.seal(document)
        self._used(folder.key)

    def _accounts(self, table: str) -> dict[str, Any]:
        """What is known by now of the tables that a table is made of."""
        above, waiting = set[str](), [table.partition(".")[0]]
        while waiting:
            name = waiting.pop()
            if name not in above:
                above.add(name)
                waiting += self.resumed.meanings.of[name].reads
        return {name: asdict(account) for name, account in self.accounts.items() if name.partition(".")[0] in above}

    def take(self, name: str) -> Table:
        """A table that is in a checkpoint."""
        kept, stage = self.resumed.tables[name], self.stages[name.partition(".")[0]]
        table = kept_table(self.session, stage.spec.name, kept.folder, kept.document, stage.gives[name])
        known = {one.spec.name: (one.spec.use, one.spec.stage) for one in self.plan.stages}
        return replace(table, fitted=fitted_of(self.session, kept.folder, kept.document, known))

    def keep_beside(self, stage: str, given: Mapping[str, Any]) -> None:
        """Keep what a stage gave beside its tables, in a run that has gone on for a while, or where a later stage is always kept."""
        plain = type(self.stages[stage].spec.stage).run in PLAIN
        if self.store is None or plain or (stage not in self.asked and (time.time() - self.began < LEAST_S or not self.settings.auto)):
            return
        folder = StageFolder(self.store, self.resumed.meanings.beside_key(stage))
        if self.resumed.fresh or folder.key in self.resumed.damaged:
            folder.remove()
        files = {
            name: folder.write(f"{folder.key[:8]}-{time.time_ns()}-{number}", [content])
            for number, (name, content) in enumerate(given.get("file", {}).items())
        }
        rest = {name: value for name, value in given.items() if name != "file"}
        piece = Piece(tuple(files.values()), 0, 0)
        known = {name: file.name for name, file in files.items()}
        folder.seal(
            {
                "table": f"{stage} (beside)",
                "pieces": [asdict(piece)],
                "files": known,
                "given": json.loads(json.dumps(rest)),
                "account": asdict(self.accounts[stage]),
            }
        )
        self._used(folder.key)

    def _asked(self) -> set[str]:
        """Stages that say checkpoint: true, and all that they are made of."""
        above, waiting = set[str](), [stage.spec.name for stage in self.plan.stages if stage.spec.checkpoint]
        while waiting:
            name = waiting.pop()
            above.add(name)
            waiting += [read for read in self.resumed.meanings.of[name].reads if read not in above]
        return above

    def _used(self, key: str) -> None:
        assert self.store is not None
        self.used.add(key)
        note_use(self.store, [key])
        keep_within(self.store, Limits(self.settings.keep, int(self.settings.gigabytes * 1e9)), self.used)


def _arrays(table: Table) -> list[str]:
    """The arrays of a table, in order; axes of such that it no longer has are not counted."""
    return [array for array in table.axes if table.schema is not None and array in table.schema.arrays]


def _by_number(folder: StageFolder, shape: str) -> list[Piece]:
    """The parts that were kept, in order; of one that several attempts wrote, one."""
    found: dict[str, Piece] = {}
    for stem in sorted(folder.notes()):
        part, _, rest = stem.partition(".")
        if part.startswith("part-") and rest.startswith(f"{shape}.") and part not in found and (piece := folder.noted(stem)):
            found[part] = piece
    return [found[part] for part in sorted(found)]


def _parts_of(fitted: Fitted) -> Sequence[Any]:
    """What a stage learned, as one part, or as the steps of several."""
    return fitted.state.blocks if isinstance(fitted.state, Table) else [fitted.state]


def _states(table: Table) -> dict[str, Any]:
    """What stages before learned, part by part, by names of their own."""
    numbered = enumerate(map(_parts_of, table.fitted))
    return {f"fitted-{number}-{place}": part for number, parts in numbered for place, part in enumerate(parts)}


def _keep_small(part: Part, folder: StageFolder, stem: str) -> str | None:
    """Write a small part that belongs to a table; its name."""
    return keep_part(folder, stem, part)


def _keep_ranges(folder: StageFolder, ranges: Mapping[str, list[Any]]) -> Piece | None:
    if not ranges:
        return None
    stem = keep_part(folder, "ranges", Part(pl.DataFrame(dict(ranges))))
    return None if stem is None else folder.noted(stem)
