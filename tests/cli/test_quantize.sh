#!/bin/sh
# test_quantize.sh BINARY - quantize as a user meets it: formats of the new file, patterns, importance
# matrices, sizes, and what is refused without leaving anything behind.  Parts of req: C-14, C-16.
set -u
rocmforge=$1
model=tests/data/models/llama-f16.gguf
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

# nothing but what was there before: no new file and no temporary one
leaves_nothing() {
    [ -z "$(ls -A "$dir/new")" ] || fail "left behind: $(ls -A "$dir/new")"
}

mkdir "$dir/new"
new=$dir/new/out.gguf

# ---- every type makes a file that is sound and still speaks
for type in F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M \
    Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 \
    TQ2_0 MXFP4 MXFP6_E2M3 MXFP6_E3M2; do
    run 0 quantize $model "$new" $type
    says out "$new: $type, 21 tensors, "
    run 0 gguf verify "$new"
    says out ': ok, 21 tensors'
    run 0 generate -m "$new" --tokens 1,5,9 --temp 0 -n 4 --json
    says out '"tokens":['
    rm -f "$new"
done

# ---- which tensor gets which format
run 0 quantize $model "$new" q8_0
run 0 inspect "$new"
says out 'Q8_0            14 tensors'
run 0 gguf dump "$new"
says out '"blk.0.attn_q.weight" Q8_0 [32, 32]'
says out '"blk.0.attn_norm.weight" F32 [32]'
says out '"general.file_type" u32 = 7'
says out '"general.quantization_version" u32 = 2'
run 0 quantize $model "$new" F16
run 0 gguf dequant $model blk.1.ffn_up.weight -o "$dir/a.f32"
run 0 gguf dequant "$new" blk.1.ffn_up.weight -o "$dir/b.f32"
cmp -s "$dir/a.f32" "$dir/b.f32" || fail 'F16 to F16 changed values'
rm -f "$new"

run 0 quantize --dry-run $model "$new" Q4_K_M
leaves_nothing
says out '"blk.0.attn_q.weight" [32, 32] F16 -> Q5_0, 2048 -> 704 bytes'
says out '"blk.0.attn_v.weight" [8, 32] F16 -> Q5_0, 512 -> 176 bytes'
says out '"blk.1.attn_v.weight" [8, 32] F16 -> Q8_0, 512 -> 272 bytes'
says out '"output.weight" [128, 32] F16 -> Q8_0, 8192 -> 4352 bytes'
says out '"blk.0.ffn_down.weight" [32, 56] F16 -> F16'
says out '(dry run: nothing was written)'
total=$(sed -n 's/.* -> \([0-9]*\) bytes$/\1/p' "$dir/out" | awk '{ n += $1 } END { print n }')
run 0 quantize --dry-run $model "$new" Q4_K_M --json
says out "\"bytes\":$total,\"bits_per_weight\":"
says out '"written":false'

# ---- patterns
run 2 quantize $model "$new" Q4_0 --tensor-type 'blk.9.*=Q8_0'
says err "no weight of $model matches"
run 2 quantize $model "$new" Q4_0 --tensor-type 'blk.*'
says err 'expected PATTERN=TYPE'
run 2 quantize $model "$new" Q4_0 --tensor-type '*=Q9_X'
says err 'expected a format that can be written'
run 2 quantize $model "$new" Q4_0 --tensor-type '*=IQ1_S'
says err 'expected a format that can be written'
run 2 quantize $model "$new" Q4_0 --tensor-type '*.attn_q.weight=Q6_K'
says err "has rows of 32 values, expected a multiple of 256"
leaves_nothing
run 0 quantize $model "$new" Q4_0 --tensor-type 'blk.?.attn_?.weight=Q8_0' \
    --tensor-type '*ffn_up*=MXFP4' --dry-run
says out '"blk.1.attn_k.weight" [8, 32] F16 -> Q8_0'
says out '"blk.1.attn_output.weight" [32, 32] F16 -> Q4_0'
says out '"blk.0.ffn_up.weight" [56, 32] F16 -> MXFP4'

# ---- in several files: nothing under a name before all is there, the parts a whole again
run 0 quantize $model "$new" Q8_0
mv "$new" "$dir/whole.gguf"
run 0 quantize $model "$new" Q8_0 --split-max-tensors 8
[ "$(ls "$dir/new" | tr '\n' ' ')" = 'out-00001-of-00003.gguf out-00002-of-00003.gguf out-00003-of-00003.gguf ' ] ||
    fail "parts: $(ls "$dir/new")"
run 0 gguf diff "$dir/whole.gguf" "$dir/new/out-00002-of-00003.gguf"
run 0 generate -m "$dir/new/out-00001-of-00003.gguf" --tokens 1,5,9 --temp 0 -n 4 --json
rm -f "$dir/new"/*
run 0 quantize $model "$new" Q8_0 --split-max-size 12K
for part in "$dir/new"/*; do
    [ "$(wc -c <"$part")" -le 12000 ] || fail "$part has $(wc -c <"$part") bytes"
done
run 0 gguf merge "$dir/new/out-00001-of-"*.gguf "$dir/merged.gguf"
cmp -s "$dir/merged.gguf" "$dir/whole.gguf" || fail 'the merged parts are not the whole file'
rm -f "$dir/new"/*
run 0 quantize $model "$new" Q8_0 --split-max-size 1G
cmp -s "$new" "$dir/whole.gguf" || fail 'one part is not the plain file'
rm -f "$new"
run 2 quantize $model "$new" Q8_0 --split-max-size 12Q
says err 'expected a number of bytes, or one with K, M, G or T'
leaves_nothing

# ---- importance: weights of columns that never matter may go wrong
cat >"$dir/imatrix.py" <<'PY'
import struct, sys
def text(s): return struct.pack('<Q', len(s)) + s.encode()
name = 'blk.0.attn_q.weight'
rows = [float(1 + 99 * (i % 8 == 0)) for i in range(int(sys.argv[2]))]
tensors = [(name + '.in_sum2', rows), (name + '.counts', [float(sys.argv[3])])]
head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), 1)
head += text('general.type') + struct.pack('<I', 8) + text('imatrix')
data = b''
for tensor, values in tensors:
    head += text(tensor) + struct.pack('<IQIQ', 1, len(values), 0, len(data))
    data += struct.pack('<%df' % len(values), *values)
    data += bytes(-len(data) % 32)
head += bytes(-len(head) % 32)
open(sys.argv[1], 'wb').write(head + data)
PY
if command -v python3 >/dev/null; then
    python3 "$dir/imatrix.py" "$dir/im.gguf" 32 4
    run 0 quantize $model "$new" Q4_0
    mv "$new" "$dir/plain.gguf"
    run 0 quantize $model "$new" Q4_0 --imatrix "$dir/im.gguf"
    says err 'the importance matrix has nothing for 11 tensors'
    for name in blk.0.attn_q.weight blk.1.attn_q.weight; do
        run 0 gguf dequant "$new" $name -o "$dir/with.f32"
        run 0 gguf dequant "$dir/plain.gguf" $name -o "$dir/without.f32"
        cmp -s "$dir/with.f32" "$dir/without.f32"
        [ $? -eq "$(echo $name | grep -c blk.0)" ] || fail "$name: the wrong tensor has changed"
    done
    python3 "$dir/imatrix.py" "$dir/im.gguf" 32 0
    run 0 quantize $model "$new" Q4_0 --imatrix "$dir/im.gguf"
    cmp -s "$new" "$dir/plain.gguf" || fail 'an importance matrix without counts changed the file'
    rm -f "$new"
    python3 "$dir/imatrix.py" "$dir/im.gguf" 64 4
    run 4 quantize $model "$new" Q4_0 --imatrix "$dir/im.gguf"
    says err 'was it made for another model?'
    leaves_nothing
else
    echo "skipped: importance matrices (no python3)"
fi

# ---- the same bytes for any number of threads
run 0 quantize $model "$new" Q4_1 --threads 1
mv "$new" "$dir/one.gguf"
run 0 quantize $model "$new" Q4_1 --threads 3
cmp -s "$new" "$dir/one.gguf" || fail 'the file depends on the number of threads'
run 0 quantize "$dir/one.gguf" "$new" Q4_0
says err 'were quantised already and their errors add up'
rm -f "$new"

# ---- what is refused
run 2 quantize $model "$new" Q4_X
says err "unknown type 'Q4_X', expected one of F32, F16, BF16, Q4_0"
run 2 quantize $model "$new"
cp $model "$dir/new/same.gguf"
run 2 quantize "$dir/new/same.gguf" "$dir/new/same.gguf" Q4_0
says err 'expected another file to write'
ln "$dir/new/same.gguf" "$dir/new/link.gguf"
run 2 quantize "$dir/new/same.gguf" "$dir/new/link.gguf" Q4_0
cmp -s $model "$dir/new/same.gguf" || fail 'the input was changed'
rm -f "$dir/new/same.gguf" "$dir/new/link.gguf"
head -c 30000 $model >"$dir/cut.gguf"
run 4 quantize "$dir/cut.gguf" "$new" Q4_0
run 3 quantize "$dir/absent.gguf" "$new" Q4_0
run 3 quantize $model "$dir/absent/out.gguf" Q4_0
if [ -c /dev/full ]; then
    run 3 quantize $model /dev/full Q4_0
    says err 'No space left'
fi
cp $model "$dir/infinite.gguf"
run 0 gguf dump $model # row 2 of a tensor of 32 columns gets an infinity
at=$(sed -n 's/^"blk.0.ffn_up.weight" .* at offset \([0-9]*\) .*/\1/p' "$dir/out")
printf '\000\174' | dd of="$dir/infinite.gguf" bs=1 seek=$((at + 2 * 64 + 6)) conv=notrunc 2>/dev/null
run 4 quantize "$dir/infinite.gguf" "$new" Q8_0
says err "tensor 'blk.0.ffn_up.weight': expected finite values, got NaN or infinity in row 2"
leaves_nothing

# ---- Ctrl-C: an input large enough to be still at work, made of one tensor of many rows
if command -v python3 >/dev/null; then
    python3 - "$dir/big.gguf" <<'PY'
import struct, sys
def text(s): return struct.pack('<Q', len(s)) + s.encode()
head = b'GGUF' + struct.pack('<IQQ', 3, 1, 1)
head += text('general.architecture') + struct.pack('<I', 8) + text('llama')
head += text('blk.0.ffn_up.weight') + struct.pack('<IQQIQ', 2, 1024, 49152, 1, 0)
head += bytes(-len(head) % 32)
with open(sys.argv[1], 'wb') as f:
    f.write(head)
    row = struct.pack('<1024H', *(0x2000 + 37 * i % 4096 + 0x8000 * (i % 3 == 0) for i in range(1024)))
    for _ in range(48): f.write(row * 1024)
PY
    last='interrupt' n_checks=$((n_checks + 1))
    # a shell starts its background jobs deaf to Ctrl-C; python3 does not
    python3 - "$rocmforge" "$dir/big.gguf" "$new" >"$dir/out" 2>"$dir/err" <<'PY'
import signal, subprocess, sys, time, os
p = subprocess.Popen([sys.argv[1], 'quantize', sys.argv[2], sys.argv[3], 'IQ4_XS',
                      '--split-max-size', '5M'],
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
def is_writing():
    fds = f'/proc/{p.pid}/fd'
    try: return any(os.path.dirname(sys.argv[3]) in os.readlink(f'{fds}/{n}') for n in os.listdir(fds))
    except FileNotFoundError: return False # closed meanwhile
while p.poll() is None and not is_writing(): time.sleep(0.01)
p.send_signal(signal.SIGINT)
sys.exit(p.wait())
PY
    code=$?
    [ $code -eq 130 ] || fail "exit code $code, expected 130: $(head -c 300 "$dir/err")"
    says err 'stopped before the end; nothing was written'
    leaves_nothing
    last='kill' n_checks=$((n_checks + 1))
    python3 - "$rocmforge" "$dir/big.gguf" "$new" <<'PY'
import os, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], 'quantize', sys.argv[2], sys.argv[3], 'IQ4_XS'])
fds, folder = f'/proc/{p.pid}/fd', os.path.dirname(sys.argv[3])
def is_writing():
    try: return any(folder in os.readlink(f'{fds}/{n}') for n in os.listdir(fds))
    except FileNotFoundError: return False # closed meanwhile
while p.poll() is None and not is_writing(): time.sleep(0.01)
p.kill()
sys.exit(p.wait() != -9)
PY
    [ $? -eq 0 ] || fail 'it ended before it could be killed'
    [ -e "$new" ] && fail 'a killed command left a file under the new name'
    rm -f "$dir/new"/.rf-*.tmp # file systems without nameless files keep one
    run 0 quantize "$dir/big.gguf" "$new" Q8_0
    rm -f "$new"
else
    echo "skipped: interrupting (no python3)"
fi

[ $failed -eq 0 ] && echo "ok: $n_checks commands"
exit $failed
