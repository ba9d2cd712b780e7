#!/bin/sh
# test_gguf_files.sh BINARY - gguf split, merge and diff as a user meets them.  Parts of req: C-14, C-16.
set -u
rocmforge=$1
model=tests/data/models/llama-f16.gguf
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/new"

# ---- split and merge give the same file again
run 0 gguf split $model "$dir/new/part.gguf" --split-max-tensors 5
says out '21 tensors, 5 parts'
[ "$(ls "$dir/new" | wc -l)" -eq 5 ] || fail "parts: $(ls -A "$dir/new")"
run 0 gguf dump "$dir/new/part-00004-of-00005.gguf"
says out '"split.no" u16 = 0'
says out '"split.count" u16 = 5'
says out '"split.tensors.count" i32 = 21'
run 0 gguf verify "$dir/new/part-00001-of-00005.gguf"
says out ': ok, 21 tensors'
run 0 gguf diff $model "$dir/new/part-00003-of-00005.gguf"
[ -s "$dir/out" ] && fail "a difference: $(cat "$dir/out")"
run 0 gguf merge "$dir/new/part-00002-of-00005.gguf" "$dir/merged.gguf" --json
says out '"parts":1,"tensors":21}'
cmp -s $model "$dir/merged.gguf" || fail 'merging does not give the file that was split'
run 0 gguf split "$dir/new/part-00001-of-00005.gguf" "$dir/new/again" --split-max-size 40K
for part in "$dir/new/again"*; do
    [ "$(wc -c <"$part")" -le 40000 ] || fail "$part has $(wc -c <"$part") bytes"
done
run 0 gguf diff $model "$(ls "$dir/new/again"* | head -1)"

# a tensor larger than the limit is a part of its own: as many parts as tensors
run 0 gguf split $model "$dir/new/small.gguf" --split-max-size 1
[ "$(ls "$dir/new/small"* | wc -l)" -eq 21 ] || fail "parts: $(ls "$dir/new/small"*)"
run 0 gguf diff $model "$dir/new/small-00021-of-00021.gguf"

# ---- what differs
run 0 quantize $model "$dir/q.gguf" Q8_0
run 1 gguf diff $model "$dir/q.gguf"
says out 'key "general.quantization_version": (none) -> u32 2'
says out 'tensor "blk.0.attn_q.weight": F16 [32, 32] -> Q8_0 [32, 32], rmse '
says out ' tensors differ'
if command -v python3 >/dev/null; then
    run 0 gguf dequant $model blk.0.attn_q.weight -o "$dir/a.f32"
    run 0 gguf dequant "$dir/q.gguf" blk.0.attn_q.weight -o "$dir/b.f32"
    run 1 gguf diff $model "$dir/q.gguf" --json
    last='gguf diff: figures'
    python3 - "$dir" <<'PY' || fail 'the figures are not those of the values'
import json, math, struct, sys
read = lambda name: [v[0] for v in struct.iter_unpack('<f', open(f'{sys.argv[1]}/{name}', 'rb').read())]
a, b = read('a.f32'), read('b.f32')
d = json.load(open(sys.argv[1] + '/out'))
t = next(t for t in d['tensors'] if t['name'] == 'blk.0.attn_q.weight')
err = sum((x - y) ** 2 for x, y in zip(a, b))
assert abs(t['rmse'] / math.sqrt(err / len(a)) - 1) < 1e-6, t
assert abs(t['relative_rmse'] / math.sqrt(err / sum(x * x for x in a)) - 1) < 1e-6, t
assert abs(t['max'] / max(abs(x - y) for x, y in zip(a, b)) - 1) < 1e-6, t
assert not d['same'] and len(d['tensors']) == 14 and t['b']['type'] == 'Q8_0'
PY
else
    echo "skipped: the figures of a difference (no python3)"
fi
run 1 gguf diff $model tests/data/models/qwen2.gguf
says out ' -> (none)'
says out ': (none) -> '

# ---- what is refused
run 2 gguf split $model "$dir/new/x.gguf"
says err '--split-max-size, --split-max-tensors, or both'
run 2 gguf split $model $model --split-max-tensors 3
says err 'expected another file to write'
run 2 gguf split $model "$dir/new/x.gguf" --split-max-size 0
run 3 gguf diff $model "$dir/absent.gguf"
run 3 gguf merge "$dir/absent.gguf" "$dir/x.gguf"
mv "$dir/new/part-00005-of-00005.gguf" "$dir/away"
run 3 gguf merge "$dir/new/part-00001-of-00005.gguf" "$dir/x.gguf"
[ -e "$dir/x.gguf" ] && fail 'an incomplete model was merged'
for left in "$dir/new"/.rf-*; do
    [ -e "$left" ] && fail "left behind: $left"
done

[ $failed -eq 0 ] && echo "ok: $n_checks commands"
exit $failed
