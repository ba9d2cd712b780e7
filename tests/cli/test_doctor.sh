#!/bin/sh
# test_doctor.sh BINARY - what doctor says about AMD GPUs, shown trees of files like those of Linux: each
# trouble with its cure, and none where all is well.  req: B-11
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
unset HSA_OVERRIDE_GFX_VERSION HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL CUDA_VISIBLE_DEVICES
RF_GPU_LIBRARY=$dir/none.so # no GPU of this machine's
export RF_GPU_LIBRARY

# put FILE TEXT: in the tree
put() {
    mkdir -p "$(dirname "$RF_SYSTEM_ROOT/$1")" && printf '%s\n' "$2" >"$RF_SYSTEM_ROOT/$1"
}

# plant NAME: a new tree with one card that amdgpu has
plant() {
    RF_SYSTEM_ROOT=$dir/$1
    export RF_SYSTEM_ROOT
    pci=sys/bus/pci/devices/0000:03:00.0
    put $pci/vendor 0x1002
    put $pci/class 0x030000
    put $pci/mem_info_vram_total 24000000000
    put $pci/mem_info_vram_used 1000000000
    put $pci/mem_info_vis_vram_total 24000000000
    put $pci/mem_info_gtt_total 8000000000
    put $pci/drm/renderD128/dev 226:128
    ln -s ../../../../bus/pci/drivers/amdgpu "$RF_SYSTEM_ROOT/$pci/driver"
    put sys/module/amdgpu/version 6.10.5
    put sys/class/kfd/kfd/topology/nodes/1/properties 'gfx_target_version 110000
drm_render_minor 128'
    put dev/kfd ''
    put dev/dri/renderD128 ''
}

doctor() {
    n_checks=$((n_checks + 1))
    last="doctor ($1)"
    "$rocmforge" doctor >"$dir/out" 2>"$dir/err" </dev/null
    [ $? -le 1 ] || fail "$(cat "$dir/err")"
}

# well CHECK, bad CHECK: a line of that verdict
well() {
    grep -q "^ok   *$1 " "$dir/out" || fail "$1 is not ok: $(cat "$dir/out")"
}
bad() {
    grep -q "^BAD  *$1 " "$dir/out" || fail "$1 is not bad: $(cat "$dir/out")"
}

plant whole
doctor 'all is there'
well 'kfd'
well 'kernel driver'
well 'render node'
says out 'amdgpu 6.10.5 has 0000:03:00.0'
says out '0000:03:00.0, gfx1100: 24.0 GB of its own, 1.0 GB of them in use, and 8.0 GB of the CPU'
bad gpu # a card, and no library
says out 'hip-runtime-amd'
grep -qE '^[a-zA-Z]+ +(override|iommu|bar|memory size|visible) ' "$dir/out" && fail "a trouble too many"
put opt/rocm/lib/libamdhip64.so.6 ''
doctor 'a library that the linker does not find'
says out 'RF_GPU_LIBRARY=/opt/rocm/lib/libamdhip64.so.6'

plant unloaded
rm -r "$RF_SYSTEM_ROOT/$pci/driver" "$RF_SYSTEM_ROOT/sys/module" "$RF_SYSTEM_ROOT/$pci/drm"
rm "$RF_SYSTEM_ROOT/dev/kfd"
doctor 'no kernel driver'
bad 'kernel driver'
says out 'amdgpu is not loaded; load it with `modprobe amdgpu`'
bad kfd
says out '--device /dev/kfd'
put sys/module/amdgpu/refcnt 1
doctor 'a driver that did not start the card'
says out 'firmware-amd-graphics'
ln -s ../vfio-pci "$RF_SYSTEM_ROOT/$pci/driver"
doctor 'a card given away'
says out 'that driver vfio-pci has, not amdgpu'

plant unknown
rm -r "$RF_SYSTEM_ROOT/sys/class/kfd" "$RF_SYSTEM_ROOT/dev/dri"
doctor 'a card that ROCm does not take'
bad 'kfd card'
bad 'render node'
says out '/dev/dri/renderD128 is not there'
rm -r "$RF_SYSTEM_ROOT/$pci/drm"
doctor 'no render node'
says out '0000:03:00.0 has none'

plant shared
put $pci/mem_info_vram_total 512000000
put sys/module/ttm/parameters/pages_limit 1000
doctor 'memory of the CPU'
well 'card memory'
says out 'ttm.pages_limit='

plant several
cp -r "$RF_SYSTEM_ROOT/$pci" "$RF_SYSTEM_ROOT/sys/bus/pci/devices/0000:43:00.0"
put $pci/mem_info_vis_vram_total 256000000
mkdir -p "$RF_SYSTEM_ROOT/$pci/iommu_group"
put $pci/iommu_group/type DMA-FQ
doctor 'several cards'
says out 'what 1 of 2 AMD GPUs do'
says out 'iommu=pt'
says out 'Resizable BAR'

plant settings
HSA_OVERRIDE_GFX_VERSION=10.3.0 HIP_VISIBLE_DEVICES=1 doctor settings
bad override
says out 'HSA_OVERRIDE_GFX_VERSION is 10.3.0'
well visible

last='doctor --json'
"$rocmforge" doctor --json >"$dir/out" 2>"$dir/err"
says out '{"check":"kfd","ok":true,"text":"/dev/kfd can be opened","cure":null}'
says out '"check":"gpu","ok":false'

RF_SYSTEM_ROOT=$dir/nothing doctor 'no card'
well gpu
grep -qE '^[a-zA-Z]+ +(kfd|render node|kernel driver) ' "$dir/out" && fail "a card out of nowhere"

echo "$n_checks runs"
exit $failed
