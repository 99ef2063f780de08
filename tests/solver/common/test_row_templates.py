"""Rows written once for a content and stamped for every thing of it."""

from meshwright_solver.common.row_templates import Contents, Stamps


def test_things_of_one_content_have_its_rows_with_their_own_positions() -> None:
    stamps = Stamps(3, (0, 2))
    written = []

    def rows(*own: list[int]) -> list[list[int]]:
        written.append(own)
        return [list(row) for row in own]

    stamps.add("a", (10, 20), lambda: rows([20, 1, 10], [10, 2, 10]))
    stamps.add("nothing", (7,), lambda: rows())
    stamps.add("b", (5,), lambda: rows([5, 3, 5]))
    stamps.add("a", (11, 31), lambda: rows([0, 0, 0]))
    found, things = stamps.written()
    assert found.tolist() == [
        [20, 1, 10],
        [10, 2, 10],
        [5, 3, 5],
        [31, 1, 11],
        [11, 2, 11],
    ]
    assert things.tolist() == [0, 0, 2, 3, 3]
    assert len(written) == 3, "the second thing of a content writes nothing"


def test_no_things_make_an_empty_table() -> None:
    found, things = Stamps(4, (1,)).written()
    assert found.shape == (0, 4)
    assert things.shape == (0,)


def test_contents_are_made_once_and_numbered_in_turn() -> None:
    contents: Contents[str] = Contents()
    numbers = [contents.number(key, lambda key=key: key * 2) for key in "abab"]  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    assert numbers == [0, 1, 0, 1]
    assert contents.all == ["aa", "bb"]
