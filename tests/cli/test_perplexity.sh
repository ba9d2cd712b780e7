#!/bin/sh
# test_perplexity.sh BINARY - perplexity and imatrix as a user meets them; the figures are computed
# again from what `logits` writes, and the sums from the embeddings.  Parts of req: C-16.
set -u
rocmforge=$1
model=tests/data/models/llama-f16.gguf
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
for word in the fox ran over hills while rain fell on seven small boats and nobody saw it happen; do
    echo "$word $word and then again $word"
done >"$dir/text.txt"
echo short >"$dir/short.txt"

# ---- with and without a reference, from a file and beside
run 0 quantize $model "$dir/q.gguf" Q4_0
run 0 perplexity -m $model -f "$dir/text.txt" --ctx 64 --chunks 2 --save-logits "$dir/base.kl" --json
cp "$dir/out" "$dir/alone.json"
run 0 perplexity -m "$dir/q.gguf" --kl-base "$dir/base.kl" --json
cp "$dir/out" "$dir/file.json"
run 0 perplexity -m "$dir/q.gguf" -f "$dir/text.txt" --ctx 64 --chunks 2 --reference $model --json
cp "$dir/out" "$dir/beside.json"
run 0 perplexity -m $model -f "$dir/text.txt" --ctx 64 --chunks 2 --reference $model
says out 'same likeliest token         100.000000 +- 0.000000 %'
says out 'KL divergence                  0.000000 +- 0.000000'
run 0 perplexity -m $model -f "$dir/text.txt" --ctx 64 --chunks 1 --json
says out '"chunks":1,"n_ctx":64,"tokens":31,'
run 0 imatrix -m $model -f "$dir/text.txt" --ctx 64 --chunks 2 -o "$dir/im.gguf" --json
says out '"weights":15}'
run 0 imatrix -m $model -f "$dir/text.txt" --ctx 64 --chunks 2 -o "$dir/im.ref.gguf" --backend ref --batch 7
run 0 gguf dump "$dir/im.gguf"
says out '"general.type" string = "imatrix"'
says out '"imatrix.chunk_size" u32 = 64'
run 0 quantize $model "$dir/qi.gguf" Q4_0 --imatrix "$dir/im.gguf"
grep -q 'has nothing for' "$dir/err" && fail "weights without importance: $(cat "$dir/err")"

if command -v python3 >/dev/null; then
    # the chunks' tokens lie in the file, behind 20 bytes
    python3 - "$dir" <<'PY'
import struct, sys
head = open(sys.argv[1] + '/base.kl', 'rb').read()
n_ctx, n_vocab, n = struct.unpack('<3i', head[8:20])
tokens = struct.unpack(f'<{n * n_ctx}i', head[20:20 + 4 * n * n_ctx])
for i in range(n):
    open(f'{sys.argv[1]}/chunk{i}', 'w').write(','.join(map(str, tokens[i * n_ctx:(i + 1) * n_ctx])))
PY
    for name in chunk0 chunk1; do
        run 0 logits -m $model --tokens "@$dir/$name" -o "$dir/$name.a"
        run 0 logits -m "$dir/q.gguf" --tokens "@$dir/$name" -o "$dir/$name.b"
    done
    run 0 gguf dequant $model token_embd.weight -o "$dir/embd.f32"
    run 0 gguf dequant $model blk.0.attn_norm.weight -o "$dir/norm.f32"
    for name in blk.0.attn_q blk.1.ffn_down output; do
        run 0 gguf dequant "$dir/im.gguf" $name.weight.in_sum2 -o "$dir/$name.sums"
        run 0 gguf dequant "$dir/im.gguf" $name.weight.counts -o "$dir/$name.counts"
        run 0 gguf dequant "$dir/im.ref.gguf" $name.weight.in_sum2 -o "$dir/$name.ref"
    done
    last='perplexity and imatrix: figures'
    python3 - "$dir" <<'PY' || fail 'the figures are not those of the logits'
import json, math, struct, sys
d = sys.argv[1] + '/'
read = lambda name: [v[0] for v in struct.iter_unpack('<f', open(d + name, 'rb').read())]
def near(a, b, tolerance, what):
    assert abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-12), (what, a, b)
def mean(v): return sum(v) / len(v)
def error(v): return math.sqrt(mean([(x - mean(v)) ** 2 for x in v]) / (len(v) - 1))
n_ctx, tokens = 64, []
nll, base_nll, kl, delta, same = [], [], [], [], []
for name in 'chunk0', 'chunk1':
    ids = [int(t) for t in open(d + name).read().split(',')]
    tokens += ids
    rows = [read(name + '.a'), read(name + '.b')]
    n = len(rows[0]) // n_ctx
    for pos in range(n_ctx // 2, n_ctx - 1): # the second half is scored
        logp = []
        for r in rows:
            x = r[pos * n:(pos + 1) * n]
            top = max(x)
            total = top + math.log(sum(math.exp(v - top) for v in x))
            logp.append([v - total for v in x])
        a, b = logp
        base_nll.append(-a[ids[pos + 1]])
        nll.append(-b[ids[pos + 1]])
        kl.append(sum(math.exp(p) * (p - q) for p, q in zip(a, b)))
        delta.append(math.exp(b[ids[pos + 1]]) - math.exp(a[ids[pos + 1]]))
        same.append(float(a.index(max(a)) == b.index(max(b))))
alone, beside, file = (json.load(open(d + n + '.json')) for n in ('alone', 'beside', 'file'))
assert alone['chunks'] == 2 and alone['tokens'] == len(nll)
near(alone['perplexity'], math.exp(mean(base_nll)), 1e-6, 'perplexity')
near(alone['perplexity_error'], math.exp(mean(base_nll)) * error(base_nll), 1e-4, 'its error')
for got, tolerance in (beside, 1e-5), (file, 1e-3):
    near(got['perplexity'], math.exp(mean(nll)), 1e-6, 'perplexity')
    near(got['reference_perplexity'], math.exp(mean(base_nll)), 1e-4, 'reference')
    near(got['log_ratio_error'], error([x - y for x, y in zip(nll, base_nll)]), 100 * tolerance, 'ratio')
    near(got['kl'], mean(kl), tolerance, 'kl')
    near(got['kl_error'], error(kl), 10 * tolerance, 'kl error')
    near(got['kl_quantiles']['max'], max(kl), tolerance, 'max')
    near(got['kl_quantiles']['median'], (sorted(kl)[30] + sorted(kl)[31]) / 2, tolerance, 'median')
    near(got['delta_p_rms'], math.sqrt(mean([x * x for x in delta])), tolerance, 'rms')
    near(got['same_top'], mean(same), 1e-9, 'same top')
# what goes into layer 0's attention: the normed embeddings
embd, norm = read('embd.f32'), read('norm.f32')
n, sums = len(norm), [0.0] * len(norm)
for t in tokens:
    x = embd[t * n:(t + 1) * n]
    r = 1 / math.sqrt(mean([v * v for v in x]) + 1e-5)
    for i in range(n):
        sums[i] += (x[i] * r * norm[i]) ** 2
for got, want in zip(read('blk.0.attn_q.sums'), sums):
    near(got, want, 1e-4, 'in_sum2')
for name in 'blk.0.attn_q', 'blk.1.ffn_down', 'output':
    assert read(name + '.counts') == [len(tokens)], name
    for a, b in zip(read(name + '.sums'), read(name + '.ref')):
        near(a, b, 2e-2, name + ' cpu against ref')
PY
    # the older format of records: the same sums give the same file
    python3 - "$dir" <<'PY'
import struct, sys
d = sys.argv[1] + '/'
data = open(d + 'im.gguf', 'rb').read()
def text(at):
    n = struct.unpack_from('<Q', data, at)[0]
    return data[at + 8:at + 8 + n].decode(), at + 8 + n
n_tensors, n_keys = struct.unpack_from('<QQ', data, 8)
at = 24
for _ in range(n_keys):
    key, at = text(at)
    kind, at = struct.unpack_from('<I', data, at)[0], at + 4
    if kind == 8: _, at = text(at)
    elif kind == 9:
        _, n = struct.unpack_from('<IQ', data, at)
        at += 12
        for _ in range(n): _, at = text(at)
    else: at += 4
tensors = []
for _ in range(n_tensors):
    name, at = text(at)
    dims = struct.unpack_from('<I', data, at)[0]
    ne = struct.unpack_from(f'<{dims}Q', data, at + 4)
    at += 4 + 8 * dims
    _, offset = struct.unpack_from('<IQ', data, at)
    at += 12
    tensors.append((name, ne[0] * ne[1], offset))
start = (at + 31) // 32 * 32
out = b''
for name, n, offset in tensors:
    if not name.endswith('.in_sum2'): continue
    name = name[:-8].encode()
    out += struct.pack('<i', len(name)) + name + struct.pack('<ii', 2, n)
    out += data[start + offset:start + offset + 4 * n]
out = struct.pack('<i', len(tensors) // 2) + out + struct.pack('<ii', 2, 4) + b'text'
open(d + 'im.dat', 'wb').write(out)
open(d + 'cut.dat', 'wb').write(out[:len(out) // 2])
PY
    run 0 quantize $model "$dir/ql.gguf" Q4_0 --imatrix "$dir/im.dat"
    cmp -s "$dir/qi.gguf" "$dir/ql.gguf" || fail 'the older format weighs otherwise'
    run 4 quantize $model "$dir/x.gguf" Q4_0 --imatrix "$dir/cut.dat"
    says err 'or was cut off'
else
    echo "skipped: the figures and the older format (no python3)"
fi

# ---- experts: every matrix of a stacked weight has its own sums, from the rows that were routed to it
moe=tests/data/models/mixtral.gguf
run 0 imatrix -m $moe -f "$dir/text.txt" --ctx 64 --chunks 2 -o "$dir/moe.gguf" --json
says out '"weights":17}'
run 0 gguf dump "$dir/moe.gguf"
says out '"blk.1.ffn_gate_exps.weight.in_sum2" F32 [8, 32]'
says out '"blk.1.ffn_down_exps.weight.counts" F32 [8, 1]'
run 0 quantize $moe "$dir/moe-q.gguf" Q4_0
run 0 quantize $moe "$dir/moe-qi.gguf" Q4_0 --imatrix "$dir/moe.gguf"
grep -q 'has nothing for' "$dir/err" && fail "weights without importance: $(cat "$dir/err")"
for name in moe-q moe-qi; do
    run 0 gguf dequant "$dir/$name.gguf" blk.0.ffn_up_exps.weight -o "$dir/$name.f32"
done
cmp -s "$dir/moe-q.f32" "$dir/moe-qi.f32" && fail 'the experts were quantised without their importance'
if command -v python3 >/dev/null; then
    run 0 gguf dequant "$dir/moe.gguf" blk.0.ffn_gate_exps.weight.counts -o "$dir/counts"
    last='imatrix: rows of the experts'
    python3 - "$dir/counts" <<'PY' || fail 'the experts did not get two times 128 rows'
import struct, sys
counts = [v[0] for v in struct.iter_unpack('<f', open(sys.argv[1], 'rb').read())]
assert len(counts) == 8 and sum(counts) == 2 * 128 and len(set(counts)) > 2, counts
PY
fi

# ---- what is refused
run 2 perplexity -m $model
says err '--file is missing'
run 2 perplexity -m $model -f "$dir/short.txt"
says err 'expected a text of at least one chunk of 512 tokens'
run 2 perplexity -m $model -f "$dir/text.txt" --kl-base "$dir/base.kl"
says err 'brings its text and chunks'
run 2 perplexity -m $model --reference $model --kl-base "$dir/base.kl"
says err 'exclude each other'
run 3 perplexity -m $model --kl-base "$dir/absent"
run 4 perplexity -m $model --kl-base "$dir/text.txt"
says err 'that '"'rocmforge perplexity --save-logits'"' wrote'
head -c 4000 "$dir/base.kl" >"$dir/cut.kl"
run 4 perplexity -m $model --kl-base "$dir/cut.kl"
says err 'the file was cut off'
run 4 perplexity -m tests/data/models/qwen2.gguf -f "$dir/text.txt" --ctx 64 --reference models/demo.gguf
says err 'only models with the same vocabulary can be compared'
run 2 imatrix -m $model -f "$dir/text.txt"
says err '--output is missing'
run 4 quantize $model "$dir/x.gguf" Q4_0 --imatrix $model
says err "expected 'imatrix', got"
[ -e "$dir/x.gguf" ] && fail 'a refused command left a file'

[ $failed -eq 0 ] && echo "ok: $n_checks commands"
exit $failed
