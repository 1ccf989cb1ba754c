from __future__ import annotations

import pytest

from harness.errors import UnavailableError
from harness.netns import kernel


def test_this_kernel_has_all_required_features() -> None:
    assert kernel.missing() == []
    kernel.require()


def test_missing_expression_is_found_by_trying_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unheard_of = kernel.KernelFeature("teleport", "CONFIG_NFT_TELEPORT", "nft_teleport")
    monkeypatch.setitem(kernel.EXPRESSIONS, "teleport", unheard_of)
    assert kernel.missing() == [unheard_of]
    with pytest.raises(
        UnavailableError, match=r"no teleport \(CONFIG_NFT_TELEPORT\): load it with `modprobe nft_teleport`"
    ):
        kernel.require()


def test_every_missing_feature_is_named_with_its_fix() -> None:
    text = kernel.explain([kernel.VETH, kernel.POLICY_ROUTING])
    assert "no veth devices (CONFIG_VETH): load it with `modprobe veth`, as root of the machine; " in text
    assert text.endswith("CONFIG_IPV6_MULTIPLE_TABLES): use another kernel")
