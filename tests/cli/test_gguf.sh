#!/bin/sh
# test_gguf.sh BINARY - inspect, gguf dump, gguf verify and gguf dequant as a user meets them: what they
# print, what they refuse, and with which exit code.  Proves parts of req: C-14, C-16, B-46.
set -u
rocmforge=$1
data=tests/data/gguf
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# run EXPECTED_CODE ARGS...: output in $dir/out and $dir/err
run() {
    want=$1
    shift
    "$rocmforge" "$@" >"$dir/out" 2>"$dir/err"
    code=$?
    last="rocmforge $*"
    [ "$code" -eq "$want" ] || fail "exit code $code, expected $want: $(head -c 300 "$dir/err")"
}

fail() {
    echo "FAILED: $last: $1"
    failed=1
}

# says FILE TEXT: the text occurs in one line
says() {
    grep -qF -- "$2" "$dir/$1" || fail "'$2' is not in std$1: $(head -c 600 "$dir/$1")"
}

run 0 inspect $data/small.gguf
says out 'GGUF version 3, 1.79 kB, aligned to 32'
says out 'architecture  "llama"'
says out 'name          "A \"small\" model"'
says out '235 in 5 tensors, 438 bytes, 14.91 bits each'
says out 'chat template yes, 26 bytes'
says out 'Q8_0             1 tensors               128 values  136 bytes'
says out 'block_count                          1'
says out '"c", "d", "e", ...]  string[16]'
grep -q 'blk.0' "$dir/out" && fail 'tensors are listed without --tensors'
run 0 inspect --tensors $data/small.gguf
says out '"blk.0.q8.weight"                        Q8_0     [2, 64]'

run 0 inspect $data/../models/mixtral.gguf
says out 'parameters    35.5 K (35488) in 22 tensors'
says out 'active        17.1 K (17056) for each token, which uses 2 of 8 experts'
run 0 inspect --json $data/../models/gpt-oss.gguf
says out '"experts":4,"experts_used":2,"active_parameters":59584'

run 0 inspect $data/split-00002-of-00002.gguf --json --tensors
says out '"version":3,"parts":2,"bytes":2016,"alignment":32,"architecture":"llama"'
says out '"name":"A \"small\" model","parameters":235,"n_tensors":5,"tensor_bytes":438'
says out '"chat_template":true'
says out '{"type":"Q4_0","tensors":1,"values":32,"bytes":18}'
says out '"hyperparameters":{"block_count":1,'
says out '"tokens":{"elements":16,"first":["<unk>", "<s>", "</s>", "a", "b", "c", "d", "e"]}'
says out '{"name":"blk.0.ids","type":"I32","shape":[3],"bytes":12,"offset":480,"part":1}'

run 0 gguf dump $data/small.gguf
says out '"llama.per_layer" i32[3] = [1, -2, 3]'
says out '"test.u64" u64 = 18446744073709551615'
says out '"test.i64" i64 = -9223372036854775808'
says out '"test.f64" f64 = 0.1'
says out '"llama.attention.layer_norm_rms_epsilon" f32 = 1e-05'
says out '"test.empty" f64[0] = []'
says out '"test.flags" bool[2] = [true, false]'
says out '"tokenizer.chat_template" string = "{{ messages[0].content }}\n"'
says out '-6, -7, ...]'
says out '"blk.0.half.weight" F16 [8] 16 bytes at offset 1536 of part 1'
run 0 gguf dump --all $data/small.gguf
says out '-6, -7, -8, -9, -10, -11, -12, -13, -14, -15]'
run 0 gguf dump --json $data/small.gguf
says out '{"key":"test.i8","type":"i8","elem_type":"i8","n":1,"offset":'
says out '"type":"array","elem_type":"f64","n":0,'

run 0 gguf verify $data/small.gguf
says out 'small.gguf: ok, 5 tensors, 235 values in 438 bytes'
run 0 gguf verify $data/split-00001-of-00002.gguf
says out 'ok, 5 tensors, 235 values'
run 1 gguf verify $data/not-finite.gguf
says out '"nan.weight" (F32): 1 NaN and 1 infinite values of 4; the first is element 2, block 2 at offset 296'
says out '"scale.weight" (Q8_0): 1 NaN and 31 infinite values of 64; the first is element 32, block 1'
says out 'bad, 3 tensors, 72 values in 100 bytes, 2 tensors with bad values'
run 1 gguf verify --json $data/not-finite.gguf
says out '{"name":"good.weight","type":"F32","values":4,"nan":0,"inf":0,"min":0,"max":3}'
says out '"bad_tensors":2,"ok":false}'

# Q8_0, four blocks of -16..15 with the scales 1, 1/2, 1/4, 1/8; Q4_0, nibbles 0..15 low and 0 high.
run 0 gguf dequant $data/small.gguf blk.0.q8.weight -o "$dir/q8.f32"
[ "$(wc -c <"$dir/q8.f32")" -eq 512 ] || fail 'expected 128 floats'
got=$(od -A n -t f4 -v -j 380 -N 12 "$dir/q8.f32" | tr -s ' \n' ' ')
[ "$got" = ' 3.75 -2 -1.875 ' ] || fail "elements 95 to 97 are$got"
run 0 gguf dequant $data/small.gguf blk.0.q4.weight -o -
got=$(od -A n -t f4 -v -N 16 "$dir/out" | tr -s ' \n' ' ')
[ "$got" = ' -4 -3.5 -3 -2.5 ' ] || fail "the first elements are$got"

# A reader that goes away and a disk that is full: said by the exit code, and nothing half-written.
echo old >"$dir/keep"
run 2 gguf dequant $data/small.gguf no.such.tensor -o "$dir/keep"
says err "no tensor 'no.such.tensor' among 5"
[ "$(cat "$dir/keep")" = old ] || fail 'the old file was touched'
run 5 gguf dequant $data/small.gguf blk.0.ids -o "$dir/none"
says err "tensor 'blk.0.ids': expected a float or quantised format, got I32"
[ -e "$dir/none" ] && fail 'a file appeared'
run 2 gguf dequant $data/small.gguf blk.0.q8.weight
says err '-o'
run 3 gguf dequant $data/small.gguf blk.0.q8.weight -o "$dir/no/such/folder/x"
says err "$dir/no/such/folder/x"
if [ -w /dev/full ]; then
    run 3 gguf dequant $data/small.gguf blk.0.q8.weight -o /dev/full
    says err /dev/full
    last='rocmforge inspect > /dev/full'
    "$rocmforge" inspect $data/small.gguf >/dev/full 2>"$dir/err"
    [ $? -eq 3 ] || fail 'expected exit code 3'
    says err 'standard output'
fi

# Bad files.
run 3 inspect "$dir/absent.gguf"
says err "$dir/absent.gguf"
run 2 inspect
run 2 gguf dump a b
head -c 700 $data/small.gguf >"$dir/cut.gguf"
for command in inspect 'gguf dump' 'gguf verify'; do
    # shellcheck disable=SC2086 # two words
    run 4 $command "$dir/cut.gguf"
    says err "cut.gguf: offset "
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail 'expected one line of error'
    [ -s "$dir/out" ] && fail 'expected no output'
done
run 4 inspect --json "$dir/cut.gguf"
says err '{"error":{"status":'
cp $data/split-00001-of-00002.gguf "$dir/"
run 3 gguf verify "$dir/split-00001-of-00002.gguf"
says err 'part 2 of 2'
says err 'split-00002-of-00002.gguf'

exit $failed
