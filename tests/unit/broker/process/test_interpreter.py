"""The signs of profile-guided optimisation, in what real builds of Python say about themselves."""

from __future__ import annotations

import pytest

from sordini.broker.process.interpreter import is_profile_optimised

GCC = {"PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": "-fprofile-use -fprofile-correction"}
DEBIAN_FLAGS = "-Wsign-compare -DNDEBUG -g -fwrapv -O2 -Wall -g   -fstack-protector-strong -Wformat"

BUILDS: dict[str, tuple[dict[str, object], bool | None]] = {
    "Debian 12": (
        {
            "CONFIG_ARGS": "'--enable-shared' '--prefix=/usr' '--with-computed-gotos' '--without-ensurepip' 'CC=gcc'",
            "PGO_PROF_GEN_FLAG": "-fprofile-generate",
            "PGO_PROF_USE_FLAG": "",
            "PY_CFLAGS": DEBIAN_FLAGS,
            "PY_CORE_CFLAGS": f"{DEBIAN_FLAGS} -std=c11 -Wextra -fvisibility=hidden",
            "CFLAGS_NODIST": "",
        },
        True,
    ),
    "pyenv, 3.11": (
        {
            "CONFIG_ARGS": "'--prefix=/opt/pyenv/versions/3.11.7' '--enable-shared' 'LDFLAGS=-L/opt/pyenv/lib'",
            "PY_CFLAGS": "-Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall",
            "CFLAGS_NODIST": "",
            **GCC,
        },
        False,
    ),
    "pyenv with PYTHON_CONFIGURE_OPTS": (
        {"CONFIG_ARGS": "'--prefix=/opt/pyenv/versions/3.13.0' '--enable-optimizations' '--with-lto'", **GCC},
        True,
    ),
    "pyenv with PYTHON_CFLAGS": (
        {"CONFIG_ARGS": "'CFLAGS=-O3 -fprofile-use=/profiles'", "PY_CFLAGS": "-O3 -fprofile-use=/profiles", **GCC},
        True,
    ),
    "the official image": (
        {
            "CONFIG_ARGS": "'--build=x86_64-linux-gnu' '--enable-loadable-sqlite-extensions' '--enable-optimizations' "
            "'--enable-option-checking=fatal' '--enable-shared' '--with-lto' '--with-ensurepip'",
            **GCC,
        },
        True,
    ),
    "clang, by hand": (
        {"CONFIG_ARGS": "'CC=clang'", "CFLAGS_NODIST": "-fprofile-instr-use=code.profclangd", **GCC},
        True,
    ),
    "switched off again": (
        {"CONFIG_ARGS": "'--enable-optimizations' '--disable-optimizations'", **GCC},
        False,
    ),
    "enabled with no": ({"CONFIG_ARGS": "'--enable-optimizations=no'", **GCC}, False),
    "Windows": ({"CONFIG_ARGS": None, "EXT_SUFFIX": ".cp311-win_amd64.pyd"}, None),
    "another compiler": ({"CONFIG_ARGS": "'CC=icc'", "PGO_PROF_GEN_FLAG": "", "PGO_PROF_USE_FLAG": ""}, None),
    "nothing is known": ({}, None),
}


@pytest.mark.parametrize("build", BUILDS)
def test_a_build_is_optimised_not_optimised_or_unknown_by_what_it_says_of_itself(build: str) -> None:
    variables, expected = BUILDS[build]
    assert is_profile_optimised(variables) is expected
