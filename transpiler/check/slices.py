"""The static check of slices: whole rows that tile their parameter, and come back in the order in which
they were cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.transpiler.check.cluster import Cluster
from fluidlite.transpiler.check.facts import Findings, Site, declared, first_of, row_count
from fluidlite.transpiler.check.reading import LinkedVariable, ServerFacts, TrainerFacts
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.op_kinds import update_of
from fluidlite.transpiler.parts.roles import JobRole, Slice

__all__ = ["check_placement", "check_slices"]


def check_slices(cluster: Cluster) -> None:
    """Splits, joins and look-ups of every trainer."""
    for trainer in cluster.trainers:
        for site in trainer.splits:
            _check_split(cluster.found, site)
        places = {
            (piece.site.program, piece.local): number
            for number, piece in enumerate(trainer.fetched + trainer.received_at_start)
        }
        for site in trainer.joins:
            order = [
                places[site.program, name]
                for name in site.op.input_arg_names
                if (site.program, name) in places
            ]
            if order:
                _check_join(cluster.found, site, order)
        _check_runtime_cuts(cluster, trainer)
        _check_tables(cluster.found, trainer)
        _check_pairing(cluster, trainer)
        _check_order(cluster, trainer)


def _check_split(found: Findings, site: Site) -> None:
    op = site.op
    given = op.attrs.get("sections") or op.attrs.get("height_sections") or ()
    sections = [int(rows) for rows in given]
    outs = op.outputs.get("Out", [])
    whole = declared(op.block, first_of(op.inputs, "X"))
    if len(sections) != len(outs):
        found.add("slices", site, f"it has {len(sections)} sections {sections} for {len(outs)} slices")
        return
    if whole is None:
        return
    if row_count(whole.shape) not in (-1, sum(sections)):
        found.add(
            "slices",
            site,
            f"the sections {sections} are {sum(sections)} rows, and {whole.name!r} has "
            f"{row_count(whole.shape)}",
        )
    for name, rows in zip(outs, sections, strict=True):
        var = declared(op.block, name)
        if var is not None and var.shape and var.shape != (rows, *whole.shape[1:]):
            found.add(
                "slices",
                site,
                f"{name!r} is {list(var.shape)}, and the section is {[rows, *whole.shape[1:]]}",
            )
        if var is not None and (var.type == VarType.SELECTED_ROWS) != (whole.type == VarType.SELECTED_ROWS):
            found.add("dtype", site, f"{name!r} is {var.type}, and {whole.name!r} is {whole.type}")


def _check_join(found: Findings, site: Site, order: Sequence[int]) -> None:
    """`order` tells in which order the slices were fetched."""
    op = site.op
    # pieces are fetched in the order of their rows
    if list(order) != sorted(order):
        found.add("slices", site, f"it joins {op.input_arg_names} in another order than they are fetched in")
    whole = declared(op.block, first_of(op.outputs, "Out"))
    parts = [declared(op.block, name) for name in op.inputs.get("X", ())]
    if int(op.attrs.get("axis", 0)) != 0:
        found.add("slices", site, f"it joins slices along axis {op.attrs['axis']}, but they are rows")
    if whole is None or any(part is None for part in parts):
        return
    shapes = [part.shape for part in parts if part is not None]
    rows = sum(map(row_count, shapes))
    if rows != row_count(whole.shape) or any(shape[1:] != whole.shape[1:] for shape in shapes):
        found.add(
            "slices",
            site,
            f"the slices {list(map(list, shapes))} have {rows} rows, and {whole.name!r} is "
            f"{list(whole.shape)}",
        )
    for part in parts:
        if part is not None and part._dtype != whole._dtype:
            found.add("dtype", site, f"{part.name!r} is {part._dtype}, and {whole.name!r} is {whole._dtype}")


def _by_site(pieces: Iterable[LinkedVariable]) -> list[list[LinkedVariable]]:
    groups: dict[int, list[LinkedVariable]] = {}
    for piece in pieces:
        groups.setdefault(id(piece.site.op), []).append(piece)
    return list(groups.values())


def _check_runtime_cuts(cluster: Cluster, trainer: TrainerFacts) -> None:
    """Sends and recvs that cut and join by themselves."""
    for group in _by_site(trainer.sent):
        if len(group[0].site.op.attrs.get("send_varnames") or ()) > 1:
            _same_rows(cluster.found, group, [row_count(piece.shape) for piece in group])
    for group in _by_site(trainer.fetched + trainer.received_at_start):
        if group[0].site.op.attrs.get("recv_varnames") and len(group) > 1:
            _same_rows(cluster.found, group, [_rows_held(cluster, piece) for piece in group])


def _rows_held(cluster: Cluster, piece: LinkedVariable) -> int:
    server = cluster.server(piece)
    var = None if server is None else server.held.get(piece.remote)
    return -1 if var is None else row_count(var.shape)


def _same_rows(found: Findings, group: Sequence[LinkedVariable], rows: list[int]) -> None:
    whole = declared(group[0].site.op.block, group[0].local)
    if whole is not None and -1 not in rows and row_count(whole.shape) not in (-1, sum(rows)):
        found.add(
            "slices",
            group[0].site,
            f"the slices of {whole.name!r} have {rows} rows, together {sum(rows)}, and it has "
            f"{row_count(whole.shape)}",
        )


def _check_tables(found: Findings, trainer: TrainerFacts) -> None:
    for group in _by_site(trainer.looked_up):
        _same_rows(found, group, [row_count(piece.shape) for piece in group])


def _check_pairing(cluster: Cluster, trainer: TrainerFacts) -> None:
    """A gradient must update the parameter that it is sent as the gradient of (sends and recvs name it in
    op_role_var).
    """
    fetched = {(piece.remote, piece.endpoint): piece for piece in trainer.fetched}
    for piece in trainer.sent:
        server = cluster.server(piece)
        param = None if server is None else _param_of(server, piece.remote)
        back = None if param is None else fetched.get((param, piece.endpoint))
        if server is None or back is None or not (piece.site.op.role_vars and back.site.op.role_vars):
            continue
        wanted = piece.site.op.role_vars[0]
        found = back.site.op.role_vars[0]
        if wanted != found:
            cluster.found.add(
                "pairing",
                piece.site,
                f"{piece.remote!r} is the gradient of {wanted!r}, and {server.role.name} updates "
                f"{param!r} with it, which is fetched as {found!r}",
            )


def _check_order(cluster: Cluster, trainer: TrainerFacts) -> None:
    """The k-th slice of the gradient must update the k-th slice of the parameter."""
    joins = [site for site in trainer.joins if site.program == "main"]
    orders = {tuple(site.op.inputs.get("X", ())): site for site in joins}
    place = {name: (number, site) for names, site in orders.items() for number, name in enumerate(names)}
    at_start = {
        name: (number, site)
        for site in trainer.joins
        if site.program == "startup"
        for number, name in enumerate(site.op.inputs.get("X", ()))
    }
    local = {(piece.remote, piece.endpoint): piece.local for piece in trainer.fetched}
    for group in _by_site(trainer.sent):
        # one variable that goes to several servers is a copy to each, not a cut
        if len(group) < 2 or len({piece.local for piece in group}) != len(group):
            continue
        for number, piece in enumerate(group):
            server = cluster.server(piece)
            param = None if server is None else _param_of(server, piece.remote)
            name = local.get((param, piece.endpoint)) if param is not None else None
            for places in (place, at_start):
                if name in places and places[name][0] != number:
                    cluster.found.add(
                        "slices",
                        places[name][1],
                        f"{name!r} is joined as slice {places[name][0]}, and its gradient "
                        f"{piece.local!r} is slice {number}",
                    )


def _param_of(server: ServerFacts, arrival: str) -> str | None:
    """The one parameter that an arriving gradient updates."""
    gradient = arrival
    if arrival not in server.gradients:
        sums = [site for site in server.readers.get(arrival, ()) if site.op.type == "sum"]
        gradient = first_of(sums[0].op.outputs, "Out") if sums else arrival
    number = server.gradients.get(gradient)
    if number is None or not 0 < number < len(server.programs.main.blocks):
        return None
    updates = map(update_of, server.programs.main.blocks[number].ops)
    params = {update[0] for update in updates if update is not None}
    return params.pop() if len(params) == 1 else None


# ---------------------------------------------------------------------- a job's own table
def check_placement(found: Findings, job: Job, servers: Mapping[str, ServerFacts]) -> None:
    """The job's slices must tile each parameter of the original program, on servers that exist and hold
    them.
    """
    groups: dict[str, list[Slice]] = {}
    for part in job.slices:
        groups.setdefault(part.param, []).append(part)
    blame = job.roles[0]
    for param, parts in groups.items():
        var = job.main.global_block()._find_var_recursive(param)
        if var is not None:
            _check_tiles(found, blame, sorted(parts, key=lambda part: part.first_row), var.shape)
        for part in parts:
            if part.endpoint not in job.endpoints:
                found.add(
                    "endpoints",
                    blame,
                    (
                        f"slice {part.index} of {param!r} is on {part.endpoint!r}, which is not a "
                        "server of the job"
                    ),
                )
            server = servers.get(part.endpoint)
            held = None if server is None else server.held.get(part.param_name)
            if server is not None and (held is None or held.shape != part.shape):
                found.add(
                    "slices",
                    server.role,
                    f"it should hold {part.param_name!r} {list(part.shape)}, but holds "
                    f"{'none' if held is None else list(held.shape)}",
                )


def _check_tiles(found: Findings, blame: JobRole, parts: Sequence[Slice], shape: tuple[int, ...]) -> None:
    row = 0
    for part in parts:
        if part.first_row != row:
            what = "overlap" if part.first_row < row else "leave a hole"
            found.add(
                "slices",
                blame,
                f"the slices of {part.param!r} {what}: slice {part.index} begins at row {part.first_row}, "
                f"and the ones before it end at row {row}",
            )
        if part.shape[1:] != shape[1:] or part.count != len(parts):
            found.add(
                "slices",
                blame,
                f"slice {part.index} of {part.count} of {part.param!r} is {list(part.shape)}, and the "
                f"parameter {list(shape)} has {len(parts)} slices of whole rows",
            )
        row = part.first_row + row_count(part.shape)
    if row != row_count(shape):
        found.add(
            "slices",
            blame,
            f"the slices of {parts[0].param!r} end at row {row}, but it has {row_count(shape)} rows",
        )
