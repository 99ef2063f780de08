"""What machines print of themselves, read; recorded outputs are of tests/data/machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.agent.machine.cards import MIB, Card, read_gpus, read_npus
from meshwright.agent.machine.levels import propose_levels, propose_network
from meshwright.agent.machine.matrix import Matrix, read_matrix
from meshwright.agent.machine.network import NetworkPort, fastest, read_infiniband, read_interface
from meshwright.agent.machine.numa import node_of, read_cpus
from meshwright.agent.machine.reading import Machine
from meshwright.schema import InvalidInput

DATA = Path(__file__).parents[3] / "data" / "machines"
A6000 = Card("NVIDIA RTX A6000", pcie_generation=4, pcie_lanes=16)
H100 = Card("NVIDIA H100 80GB HBM3", pcie_generation=5, pcie_lanes=16)


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def matrix(name: str) -> Matrix:
    return read_matrix(recorded(f"{name}.topo.txt"))


def levels(name: str, card: Card) -> list[tuple[str, int, str, float | None]]:
    """Name, size, link, GB/s of a device."""
    found = propose_levels(matrix(name), card).levels
    return [
        (own.name, own.size, own.link, own.bytes_per_s and round(own.bytes_per_s / 1e9, 2))
        for own in found
    ]


def test_a_matrix_has_devices_nics_and_affinities() -> None:
    found = matrix("a6000-8")
    assert found.devices == tuple(f"GPU{at}" for at in range(8))
    assert found.nics == ("NIC0", "NIC1")
    assert found.links[1][:4] == ("NV4", "X", "NODE", "NODE")
    assert found.nic_links[6] == ("PHB", "PHB")
    assert found.affinity == ("0-63",) * 4 + ("64-127",) * 4


def test_tabs_colours_and_nics_by_name_are_read_too() -> None:
    plain = matrix("nv18-8")
    coloured = recorded("nv18-8.topo.txt").replace("GPU0\tGPU1", "\x1b[4mGPU0\tGPU1", 1)
    assert read_matrix(coloured) == plain
    assert plain.affinity[3] == "0-27,112-139"
    assert matrix("a100-4").nics == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")


def test_every_recorded_matrix_is_symmetric() -> None:
    names = [path.name.removesuffix(".topo.txt") for path in DATA.glob("*.topo.txt")]
    assert len(names) >= 8
    for name in names:
        links = matrix(name).links
        for a, row in enumerate(links):
            assert row[a] == "X"
            assert all(links[b][a] == kind for b, kind in enumerate(row)), name


@pytest.mark.parametrize(
    "text",
    ["", "Failed to initialize NVML", "\tGPU0\tGPU1\nGPU0\t X \tNV1\n", "GPU0 GPU1\nGPU0 X\n"],
)
def test_what_is_no_whole_matrix_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_matrix(text)


def test_npus_say_their_links_and_dies() -> None:
    assert matrix("910b3-8").links[2][:3] == ("HCCS", "HCCS", "X")
    assert matrix("910c-2").devices == ("Phy-ID12", "Phy-ID13")
    assert matrix("910c-2").links == (("X", "SIO"), ("SIO", "X"))


def test_switched_nvlink_is_one_level_of_all_a_device_s_links() -> None:
    # NV18 seven times over, of 18 links: 18 x 25 GB/s
    assert levels("nv18-8", H100) == [("gpu", 8, "nvlink", 450.0)]


def test_meshed_nvlink_shares_a_device_s_links() -> None:
    # four to each of three others: 12 x 25 GB/s
    assert levels("a100-4", Card("NVIDIA A100-SXM4-40GB")) == [("gpu", 4, "nvlink", 300.0)]


def test_bridged_pairs_lie_in_sockets() -> None:
    # a bridge of 4 x 14.0625; PCIe 4.0 x16 is 31.5
    assert levels("a6000-8", A6000) == [
        ("host", 2, "smp", 31.5),
        ("numa", 2, "pcie", 31.5),
        ("gpu", 2, "nvlink", 56.25),
    ]
    found = propose_levels(matrix("a6000-8"), A6000)
    assert "guessed" in found.levels[0].source
    assert "guessed" not in found.levels[2].source
    assert found.notes == ()


def test_sockets_without_bridges() -> None:
    card = Card("NVIDIA L40S", pcie_generation=4, pcie_lanes=16)
    assert levels("l40s-8", card) == [("host", 2, "smp", 31.5), ("numa", 4, "pcie", 31.5)]


def test_groups_of_several_sizes_are_no_level_and_named() -> None:
    # PIX joins 0+1 and 4+5 only; with PXB there are two groups of four
    card = Card("NVIDIA GeForce RTX 4090", pcie_generation=4, pcie_lanes=16)
    assert levels("pcie-8", card) == [("host", 2, "smp", 31.5), ("switches", 4, "pcie", 31.5)]
    notes = propose_levels(matrix("pcie-8"), card).notes
    assert notes == ("groups by PIX are no level: 0+1, 2, 3, 4+5, 6, 7",)
    assert levels("three", A6000) == [("numa", 3, "pcie", 31.5)]


def test_ascend_has_hccs_of_its_data_sheet_or_says_that_none_is_known() -> None:
    (card,) = set(read_npus(recorded("910b3-8.npu-smi.txt")))
    assert levels("910b3-8", card) == [("npu", 8, "hccs", 196.0)]
    (die,) = set(read_npus(recorded("910c-2.npu-smi.txt")))
    (found,) = propose_levels(matrix("910c-2"), die).levels
    assert (found.name, found.size, found.bytes_per_s) == ("package", 2, None)
    assert "only measuring tells" in found.source


def test_unknown_cards_get_no_number() -> None:
    for name in ("nv18-8", "three"):
        (found,) = propose_levels(matrix(name), Card("NVIDIA X9000")).levels
        assert found.bytes_per_s is None
        assert "only measuring tells" in found.source


def test_cards_of_nvidia_smi() -> None:
    found = read_gpus(recorded("h200-8.cards.csv"))
    assert found == (Card("NVIDIA H200", 143771 * MIB, 5, 16),) * 8
    (only,) = set(read_gpus(recorded("rtx5060-4.cards.csv")))
    assert only == Card("NVIDIA GeForce RTX 5060 Ti", None, 3, 8)
    assert read_gpus(recorded("a100.cards.csv")) == (Card("NVIDIA A100-SXM4-80GB", 81920 * MIB),)
    assert read_gpus("name, memory.total [MiB]\nNVIDIA A10, [N/A]\n") == (Card("NVIDIA A10"),)
    assert read_gpus("Failed to initialize NVML: Driver/library version mismatch") == ()


def test_cards_of_npu_smi() -> None:
    assert read_npus(recorded("910b3-8.npu-smi.txt")) == (Card("Ascend 910B3", 65536 * MIB),) * 8
    assert read_npus(recorded("910c-2.npu-smi.txt")) == (Card("Ascend910", 65536 * MIB),) * 2
    sizes = [own.memory_bytes for own in read_npus(recorded("310p-2.npu-smi.txt"))]
    assert sizes == [44280 * MIB, 43693 * MIB]
    assert read_npus("") == ()


def test_ports_that_are_up_say_their_rate() -> None:
    up = {"state": "4: ACTIVE\n", "rate": "400 Gb/sec (4X NDR)\n", "link_layer": "InfiniBand\n"}
    assert read_infiniband("mlx5_4", up) == NetworkPort("mlx5_4", "infiniband", 50e9)
    roce = {**up, "rate": "100 Gb/sec (2X NDR)\n", "link_layer": "Ethernet\n"}
    assert read_infiniband("mlx5_0", roce) == NetworkPort("mlx5_0", "roce", 12.5e9)
    assert read_infiniband("mlx5_5", {**up, "state": "1: DOWN\n"}) is None
    assert read_infiniband("mlx5_5", {}) is None
    found = read_interface("eth0", {"operstate": "up\n", "speed": "25000\n"})
    assert found == NetworkPort("eth0", "ethernet", 3.125e9)
    for files in ({"operstate": "up", "speed": "-1"}, {"operstate": "down", "speed": "1000"}, {}):
        assert read_interface("eth0", files) is None


def test_the_fastest_ports_are_shared_by_the_devices() -> None:
    ports = (
        *(NetworkPort(f"mlx5_{at}", "infiniband", 50e9) for at in range(4)),
        NetworkPort("m", "roce", 1e9),
    )
    assert len(fastest(ports)) == 4
    found = propose_network(2, 8, ports)
    assert (found.size, found.link, found.bytes_per_s) == (2, "infiniband", 25e9)
    assert "4 ports of 50 GB/s" in found.source
    assert propose_network(2, 8, ()).bytes_per_s is None


def test_numa_nodes_by_their_cpus() -> None:
    assert read_cpus("0-3,8\n") == {0, 1, 2, 3, 8}
    assert read_cpus("\n") == frozenset()
    nodes = {0: "0-51,104-155", 1: "52-103,156-207"}
    assert node_of("52-103", nodes) == 1
    assert node_of("0-103", nodes) is None
    assert node_of("", nodes) is None


def files(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_machine_proposes_its_levels_and_the_network(tmp_path: Path) -> None:
    port = "class/infiniband/mlx5_0/ports/1"
    sys = files(
        tmp_path,
        {
            f"{port}/state": "4: ACTIVE",
            f"{port}/rate": "200 Gb/sec (4X HDR)",
            f"{port}/link_layer": "InfiniBand",
            "class/net/eth0/operstate": "up",
            "class/net/eth0/speed": "1000",
            "devices/system/node/node0/cpulist": "0-63",
            "devices/system/node/node1/cpulist": "64-127",
        },
    )
    here = Machine.here(sys)
    assert [own.name for own in here.ports] == ["mlx5_0/1"]
    machine = Machine((A6000,) * 8, matrix("a6000-8"), here.ports, here.nodes)
    one = machine.propose(hosts=1, each=8)
    assert [own.size for own in one.levels] == [2, 2, 2]
    assert "near NUMA node 1: GPU4, GPU5, GPU6, GPU7" in one.notes
    assert any(note.startswith("between such machines 3.12 GB/s a device") for note in one.notes)
    four = machine.propose(hosts=4, each=8)
    assert (four.levels[0].name, four.levels[0].size) == ("node", 4)
    assert four.levels[0].bytes_per_s == 25e9 / 8
    some = machine.propose(hosts=1, each=2)
    assert "8 devices are here, 2 are measured" in some.notes


def test_a_machine_of_cpus_says_that_only_measuring_tells(tmp_path: Path) -> None:
    found = Machine.here(files(tmp_path, {"devices/system/node/node0/cpulist": "0-1"}))
    machine = Machine(ports=found.ports, nodes=found.nodes)
    (level,) = machine.propose(hosts=1, each=2).levels
    assert (level.name, level.size, level.bytes_per_s) == ("device", 2, None)
    assert "only measuring tells; the machine has 1 NUMA nodes" in level.source
