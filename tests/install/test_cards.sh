#!/bin/sh
# test_cards.sh BINARY - which GPU targets a build chooses by itself, from what drivers say of the cards.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
list=cmake/cards.cmake

# amd VERSION...: nodes of these versions, as the kernel driver shows them; 0 is a processor
amd() {
    rm -rf "$dir/sys"
    node=0
    for version; do
        mkdir -p "$dir/sys/class/kfd/kfd/topology/nodes/$node"
        printf 'cpu_cores_count 0\ngfx_target_version %s\nsimd_count 96\n' "$version" \
            >"$dir/sys/class/kfd/kfd/topology/nodes/$node/properties"
        node=$((node + 1))
    done
}

# nvidia CODE TEXT: what nvidia-smi ends with and says
nvidia() {
    printf '#!/bin/sh\nprintf "%s"\nexit %s\n' "$2" "$1" >"$dir/nvidia-smi"
    chmod +x "$dir/nvidia-smi"
}

finds() {
    n_checks=$((n_checks + 1))
    last="cards $1"
    found=$(PATH="$dir:$PATH" cmake "-DRF_CARDS_ROOT=$dir" -P "$list" 2>&1)
    [ "$found" = "$1" ] || fail "found '$found'"
}

nvidia 0 ''
amd
finds ''
amd 0
finds ''
amd 0 110000 110000
finds gfx1100
amd 0 90010 90402 90008 120001 100306
finds 'gfx90a;gfx942;gfx908;gfx1201;gfx1036'
amd 90000 90012 100102 100306 110504 # without kernels of their own: by family, where that has any
finds 'gfx9-generic;gfx10-1-generic;gfx1036;gfx11-generic'
amd 80003 7 90401 # gfx941 is no gfx9 of the family
finds ''
nvidia 0 '9.0\n9.0\n'
finds 'sm_90;sm_90a'
nvidia 0 '7.5\n8.9\n10.0\n12.0\n'
amd 0 110001
finds 'gfx1101;sm_80;sm_90;sm_120'
nvidia 9 'NVIDIA-SMI has failed because it could not communicate with driver 8.0\n'
finds gfx1101
nvidia 0 '[Not Supported]\n'
finds gfx1101

echo "$n_checks checks"
exit $failed
