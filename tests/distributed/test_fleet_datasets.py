"""Data sets in files: `DataFeedDesc`, `DatasetFactory`, training from them, and the generators that write
them.
"""

from __future__ import annotations

import io
import pathlib
import threading
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import FormatError
from fluidlite.incubate.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)
from fluidlite.reading.multi_slot import parse


def write_clicks(
    folder: pathlib.Path, files: int = 2, lines: int = 7
) -> tuple[list[str], list[tuple[list[int], list[float], int]]]:
    random, samples, paths = np.random.RandomState(0), [], []
    for number in range(files):
        path = folder / f"part-{number}"
        rows = [
            (
                random.randint(1, 50, random.randint(1, 4)).tolist(),
                random.rand(3).round(4).tolist(),
                int(random.randint(0, 2)),
            )
            for _ in range(lines)
        ]
        path.write_text(
            "".join(
                f"{len(ids)} {' '.join(map(str, ids))} 3 {' '.join(map(str, dense))} 1 {label}\n"
                for ids, dense, label in rows
            )
        )
        samples += rows
        paths.append(str(path))
    return paths, samples


def network() -> tuple[list[Any], Any]:
    ids, dense = fluid.data("ids", [None, 1], "int64", lod_level=1), fluid.data("dense", [None, 3])
    label, constant = fluid.data("label", [None, 1], "int64"), fluid.initializer.Constant
    rows = fluid.layers.embedding(
        ids, [50, 4], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=constant(0.1))
    )
    both = fluid.layers.concat([fluid.layers.sequence_pool(rows, "sum"), dense], 1)
    guess = fluid.layers.fc(
        both, 2, act="softmax", param_attr=fluid.ParamAttr("w", initializer=constant(0.1))
    )
    return [ids, dense, label], fluid.layers.mean(fluid.layers.cross_entropy(guess, label))


def dataset(kind: str, paths: list[str], use: list[Any], threads: int = 1) -> Any:
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_batch_size(4)
    made.set_thread(threads)
    made.set_filelist(paths)
    made.set_pipe_command("cat")
    made.set_use_var(use)
    return made


def weights() -> Any:
    return np.array(fluid.global_scope().find_var("w").get_tensor())


@pytest.fixture
def clicks(tmp_path: pathlib.Path) -> Any:
    paths, samples = write_clicks(tmp_path)
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        use, loss = network()
        fluid.optimizer.SGD(0.5).minimize(loss)
        yield paths, samples, use, loss


def train_by_feeds(samples: list[Any]) -> Any:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for start in range(0, len(samples), 4):
        ids, dense, labels = zip(*samples[start : start + 4], strict=True)
        flat = np.concatenate([np.array(one, "int64") for one in ids])[:, None]
        exe.run(
            feed={
                "ids": fluid.create_lod_tensor(flat, [[len(one) for one in ids]], fluid.CPUPlace()),
                "dense": np.array(dense, "float32"),
                "label": np.array(labels, "int64")[:, None],
            }
        )
    return weights()


@pytest.mark.parametrize(
    ("kind", "threads"), [("QueueDataset", 1), ("QueueDataset", 3), ("InMemoryDataset", 2)]
)
def test_training_from_files_is_training_by_feeds(clicks: Any, kind: str, threads: int) -> None:
    paths, samples, use, _ = clicks
    wanted = train_by_feeds(samples)
    exe, made = fluid.Executor(fluid.CPUPlace()), dataset(kind, paths, use, threads)
    exe.run(fluid.default_startup_program())
    if kind == "InMemoryDataset":
        made.load_into_memory()
        assert made.get_memory_data_size() == len(samples) and made.get_shuffle_data_size() == 0
    exe.train_from_dataset(fluid.default_main_program(), made, thread=1)
    np.testing.assert_array_equal(weights(), wanted)


def test_what_is_shown(clicks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths, _, use, loss = clicks
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(
        fluid.default_main_program(),
        dataset("QueueDataset", paths, use),
        fetch_list=[loss],
        fetch_info=["loss is"],
        print_period=2,
    )
    shown = capsys.readouterr().out
    assert (
        shown.count("loss is\tmean_0.tmp_0\t\tlod: {}\n\tdim: 1\n\tlayout: NCHW\n\tdtype: float\n\tdata: [0.")
        == 2
    )

    class Handler(fluid.executor.FetchHandler):
        seen: list[Any] = []  # noqa: RUF012

        def handler(self, res_dict: dict[str, Any]) -> None:
            self.seen.append(res_dict)

    exe.infer_from_dataset(
        fluid.default_main_program(),
        dataset("QueueDataset", paths, use),
        fetch_handler=Handler({"loss": loss}, period_secs=0),
    )
    assert len(Handler.seen) == 4 and Handler.seen[0]["loss"].shape == (1,)
    with pytest.raises(AssertionError):
        exe.train_from_dataset(
            fluid.default_main_program(), dataset("QueueDataset", paths, use), fetch_list=[loss]
        )
    with pytest.raises(RuntimeError, match="dataset"):
        exe.train_from_dataset(fluid.default_main_program())


def test_loader_of_a_dataset(clicks: Any) -> None:
    paths, samples, use, _ = clicks
    rows = [
        len(batch["label"].array)
        for batch in fluid.io.DataLoader.from_dataset(
            dataset("QueueDataset", paths, use), [fluid.CPUPlace()], drop_last=False
        )
        for batch in batch
    ]
    assert rows == [4, 4, 4, 2]
    whole = list(fluid.io.DataLoader.from_dataset(dataset("QueueDataset", paths, use), fluid.cpu_places(1)))
    assert [batch[0]["ids"].recursive_sequence_lengths() for batch in whole[:1]] == [
        [[len(ids) for ids, _, _ in samples[:4]]]
    ]
    assert len(whole) == 3
    with pytest.raises(AssertionError, match="DatasetBase"):
        fluid.io.DataLoader.from_dataset("x", fluid.cpu_places(1))


def labels_of(made: Any) -> list[Any]:
    return sorted(
        (tuple(batch["ids"].array.ravel()), tuple(batch["label"].array.ravel())) for batch in made.batches()
    )


def test_shuffling(clicks: Any) -> None:
    paths, _, use, _ = clicks
    made = dataset("InMemoryDataset", paths, use)
    made.preload_into_memory()
    made.wait_preload_done()
    made.set_batch_size(1)
    before, ordered = labels_of(made), [tuple(batch["ids"].array.ravel()) for batch in made.batches()]
    np.random.seed(0)
    made.local_shuffle()
    assert (
        labels_of(made) == before
        and [tuple(batch["ids"].array.ravel()) for batch in made.batches()] != ordered
    )
    made.release_memory()
    with pytest.raises(RuntimeError, match="load_into_memory"):
        made._prepare_to_run()
    with pytest.raises(RuntimeError, match="does not support local shuffle"):
        dataset("QueueDataset", paths, use).local_shuffle()


def test_global_shuffle_deals_all_samples_out_again(
    clicks: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fluidlite.incubate.fleet.base.fleet_base import Fleet
    from fluidlite.incubate.fleet.base.role_maker import GeneralRoleMaker

    paths, samples, use, _ = clicks
    fleets = []
    for number in range(2):
        for name, value in {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2",
            "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:3",
            "PADDLE_TRAINER_ID": str(number),
        }.items():
            monkeypatch.setenv(name, value)
        fleets.append(Fleet(1))
        fleets[-1].init(
            GeneralRoleMaker(path=str(tmp_path / "meet"), init_timeout_seconds=20, run_timeout_seconds=20)
        )
    sets = [dataset("InMemoryDataset", [path], use) for path in paths]
    sizes: list[Any] = [None, None]

    def work(number: int) -> None:
        sets[number].load_into_memory()
        sets[number].global_shuffle(fleets[number])
        sizes[number] = sets[number].get_memory_data_size(fleets[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [len(samples)] * 2 and [made.get_shuffle_data_size() for made in sets] == [7, 7]
    for made in sets:
        made.set_batch_size(1)
    assert sorted(labels_of(sets[0]) + labels_of(sets[1])) == sorted(
        (tuple(ids), (label,)) for ids, _, label in samples
    )


# ---------------------------------------------------------------------- text
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"1 5 1 0.5\n2 1 1 0.5\n", "line 2"),
        (b"1 5\n", "fewer than 2"),
        (b"0 1 0.5\n", "at least 1"),
        (b"1 5 1 0.5 7\n", "more than 2"),
        (b"1 5 1 0.5\n1 x 1 0.5\n", "line 2: a value is not a number"),
        (b"9 5 1 0.5\n", "line 1"),
    ],
)
def test_lines_that_are_wrong(text: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse(text, ["uint64", "float"])


def test_large_ids_and_empty_files() -> None:
    found = parse(b"2 18446744073709551615 9007199254740993 1 0.5\n1 3 2 1e-3 -2\n", ["uint64", "float"])
    assert found.fields[0].values.tolist() == [-1, 9007199254740993, 3] and found.fields[
        1
    ].offsets.tolist() == [0, 1, 3]
    assert len(parse(b"", ["uint64"])) == 0 and len(parse(b"\n\n", ["uint64"])) == 0


def test_names_of_samples_are_passed_by(clicks: Any, tmp_path: pathlib.Path) -> None:
    paths, _, use, _ = clicks
    plain, named = (
        dataset("InMemoryDataset", paths[:1], use),
        dataset("InMemoryDataset", [str(tmp_path / "named")], use),
    )
    lines = pathlib.Path(paths[0]).read_text().splitlines()
    (tmp_path / "named").write_text(
        "".join(f"1 a{number} 1 text {line}\n" for number, line in enumerate(lines))
    )
    named.set_parse_ins_id(True)
    named.set_parse_content(True)
    for made in (plain, named):
        made.load_into_memory()
    assert labels_of(plain) == labels_of(named)


def test_zeros_in_memory() -> None:
    found = parse(b"2 0 5 2 0 0.5\n1 0 2 1e-7 0\n", ["uint64", "float"])
    assert found.fields[0].without_zeros().values.tolist() == [5, 0]
    assert found.fields[1].without_zeros().offsets.tolist() == [0, 1, 2]
    assert found.fields[0].values.tolist() == [0, 5, 0]


def test_pipe_command_and_its_failure(clicks: Any) -> None:
    paths, _, use, _ = clicks
    made = dataset("QueueDataset", paths, use)
    made.set_pipe_command("head -n 2")
    assert [len(batch["label"].array) for batch in made.batches()] == [4]
    made.set_pipe_command("cat | head -n 2")
    assert [len(batch["label"].array) for batch in made.batches()] == [4]
    for command in ("exit 3", "(head -n 1; exit 3) | cat", "(exit 3) | cat | cat"):
        made.set_pipe_command(command)
        with pytest.raises(RuntimeError, match="ended with 3"):
            list(made.batches())


def test_descriptions(tmp_path: pathlib.Path, clicks: Any) -> None:
    paths, _, use, _ = clicks
    file = tmp_path / "feed.prototxt"
    file.write_text(
        'name: "MultiSlotDataFeed"\nbatch_size: 2\nmulti_slot_desc { slots { name: "words" type: "uint64" '
        "is_dense: false is_used: "
        "false } }"
    )
    feed = fluid.DataFeedDesc(str(file))
    feed.set_batch_size(128)
    feed.set_dense_slots(["words"])
    feed.set_use_slots(["words"])
    assert feed.desc() == (
        'name: "MultiSlotDataFeed"\nbatch_size: 128\nmulti_slot_desc {\n  slots {\n    name: "words"\n    '
        'type: "uint64"\n'
        '    is_dense: true\n    is_used: true\n  }\n}\npipe_command: "cat"\n'
    )
    with pytest.raises(KeyError):
        feed.set_use_slots(["other"])
    assert dataset("QueueDataset", paths, use[:2]).desc() == (
        'name: "MultiSlotDataFeed"\nbatch_size: 4\nmulti_slot_desc {\n  slots {\n    name: "ids"\n    type: '
        '"uint64"\n    is_used: true\n  }\n'
        '  slots {\n    name: "dense"\n    type: "float"\n    is_dense: true\n    is_used: true\n    shape: '
        "-1\n    shape: 3\n  }\n}\n"
        'pipe_command: "cat"\n'
    )
    with pytest.raises(ValueError, match="does not exist"):
        fluid.DatasetFactory().create_dataset("Other")


# ---------------------------------------------------------------------- generators
def run(
    generator: DataGenerator,
    lines: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    if lines is None:
        generator.run_from_memory()
    else:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        generator.run_from_stdin()
    return capsys.readouterr().out


def test_generators(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Words(MultiSlotDataGenerator):
        def generate_sample(self, line: str | None) -> Any:
            def samples() -> Any:
                yield [("words", [1926, 8, 17] if line is None else [len(line), 0.5]), ("label", [1])]
                yield None

            return samples

    class Text(MultiSlotStringDataGenerator):
        def generate_sample(self, line: str | None) -> Any:
            return lambda: [[("words", (line or "").split())]]

    assert run(Words(), None, monkeypatch, capsys) == "3 1926 8 17 1 1\n"
    words = Words()
    assert run(words, "a\nbc\n", monkeypatch, capsys) == "2 2 0.5 1 1\n2 3 0.5 1 1\n"
    assert words._proto_info == [("words", "float"), ("label", "uint64")]
    assert run(Text(), "a b\nc\n", monkeypatch, capsys) == "2 a b\n1 c\n"
    for wrong, said in (
        (("abc", 1), "cannot unpack|name|too many|int"),
        ([("w", [])], "can not be empty"),
        ([("w", (1,))], "list type"),
        ([("label", [1]), ("words", [1])], "not match"),
        ([("words", [1])], "inconsistent"),
        (None, "list or tuple"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            (words if "not match" in said or "inconsistent" in said else Words())._gen_str(wrong)
    with pytest.raises(RuntimeError, match="generate_sample"):
        MultiSlotDataGenerator().run_from_memory()
    with pytest.raises(ValueError, match="line_limit"):
        words._set_line_limit(0)


def test_batches_of_a_generator(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Padded(MultiSlotDataGenerator):
        def generate_sample(self, line: str | None) -> Any:
            return lambda: [[("n", [1] * number)] for number in (1, 2, 3)]

        def generate_batch(self, samples: list[Any]) -> Any:
            longest = max(len(sample[0][1]) for sample in samples)
            return lambda: [[("n", sample[0][1] + [0] * (longest - len(sample[0][1])))] for sample in samples]

    padded = Padded()
    padded.set_batch(2)
    assert run(padded, None, monkeypatch, capsys) == "2 1 0\n2 1 1\n3 1 1 1\n"


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
@pytest.mark.parametrize("sizes", [[10], [5, 5], [3, 7], [1, 9, 4], [2]])
@pytest.mark.parametrize("places", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_of_several_places(
    tmp_path: pathlib.Path, kind: str, sizes: list[int], places: int, drop_last: bool
) -> None:
    """Every step has a batch for each place, as in 1.8.5, which forgets samples at the end of the shortest
    reader; here the last ones are shared out evenly.
    """
    paths = []
    for number, size in enumerate(sizes):
        paths.append(str(tmp_path / str(number)))
        first = 1 + sum(sizes[:number])
        pathlib.Path(paths[-1]).write_text(
            "".join(f"1 {row}\n" for row in range(first, first + size)), encoding="utf8"
        )
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_batch_size(2)
    made.set_thread(2)
    made.set_use_var([fluid.data("ids", [None, 1], "int64", lod_level=1)])
    made.set_pipe_command("cat")
    made.set_filelist(paths)
    if kind == "InMemoryDataset":
        made.load_into_memory()
    loader = fluid.io.DataLoader.from_dataset(made, [fluid.CPUPlace()] * places, drop_last)
    full, left = divmod(sum(sizes), 2 * places)
    for _ in range(2):
        steps = [[np.array(batch["ids"]).ravel().tolist() for batch in step] for step in loader]
        rows = [row for step in steps for batch in step for row in batch]
        assert rows == list(range(1, 1 + (2 * places * full if drop_last else sum(sizes))))
        assert len(steps) == full + (left > 0 and not drop_last)
        assert all(len(step) == places for step in steps[:full])
        assert all(len(step) == min(places, left) for step in steps[full:])


def test_the_other_side_of_a_data_set(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1 1\n1 2\n1 3\n", encoding="utf8")
    made = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    assert isinstance(made.dataset, fluid.core.Dataset)
    made.set_use_var([fluid.data("ids", [None, 1], "int64", lod_level=1)])
    made.set_pipe_command("cat")
    made.set_filelist([str(path)])
    made.set_thread(3)
    made.set_hdfs_config("name", "ugi")
    made.set_download_cmd("get")
    side = made.dataset
    found = side.get_filelist(), side.get_thread_num(), side.get_hdfs_config(), side.get_download_cmd()
    assert found == ([str(path)], 3, ("name", "ugi"), "get")
    assert (side.get_trainer_num(), side.get_fleet_send_batch_size()) == (1, 1024)
    side.load_into_memory()
    side.local_shuffle()
    side.global_shuffle()
    side.slots_shuffle({"ids"})
    assert side.get_memory_data_size() == made.get_memory_data_size() == 3
    side.release_memory()
    assert made.get_memory_data_size() == 0
    side.set_filelist([])
    side.set_thread_num(2)
    assert (made.filelist, made.thread_num) == ([], 2)
    alone = fluid.core.Dataset("MultiSlotDataset")
    alone.set_filelist(["a"])
    assert (alone.get_filelist(), alone.get_thread_num()) == (["a"], 1)
    for wrong in (lambda: fluid.core.Dataset("MyDataset"), alone.load_into_memory):
        with pytest.raises(fluid.core.EnforceNotMet):
            wrong()
