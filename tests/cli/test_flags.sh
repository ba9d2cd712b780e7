#!/bin/sh
# test_flags.sh BINARY - commands, flags, environment and config file: what is refused and how it is
# said, who wins over whom, and that help, man page, completions and documents agree with the tables.
# Proves parts of req: C-16.
set -u
rocmforge=$1
model=tests/data/models/llama-gqa.gguf
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

# ---- commands and flags
refused 2 "no command given; see 'rocmforge help'"
refused 2 "unknown command 'frobnicate'" frobnicate
refused 2 "unknown command 'generat' (did you mean 'generate'?)" generat
refused 2 "'gguf' needs one of its commands, such as 'gguf dump'" gguf
refused 2 "unknown command 'gguf frob'" gguf frob
refused 2 "unknown command 'a?b'" 'a
b'
refused 2 "unknown command ''" ''
refused 2 "unknown flag '--frob'; see 'rocmforge help generate'" generate --frob
refused 2 "unknown flag '--tmep' (did you mean '--temp'?)" generate --tmep 1
refused 2 "unknown flag '--temp'" tokenize --temp 1
refused 2 "unknown flag '-z'" generate -z
refused 2 "unknown flag '--no-temp'" generate --no-temp
refused 2 "--temp needs a value" generate --temp
refused 2 "-m needs a value" generate -m
refused 2 "--json: 'maybe' is neither true nor false" generate --json=maybe
refused 2 "--no-json=1 takes no value" generate --no-json=1
refused 2 "-hx takes no value" generate -hx
refused 2 "missing argument: it takes FILE" inspect
refused 2 "missing argument: it takes FILE TENSOR" gguf dequant x
refused 2 "unexpected argument 'b'" inspect a b
refused 2 "unexpected argument 'x'" version x
for wrong in "-1.5" 101 nan inf abc "" "1x" 1e400; do
    refused 2 "--temp: '$wrong' is not a number between 0 and 100" generate --temp "$wrong"
done
for wrong in -2 99999999999999999999 1.5 "" " " 0x10 7seven; do
    refused 2 "-n: '$wrong' is not a whole number between -1 and 16777216" generate -n "$wrong"
done
refused 2 "--top-p: '2' is not a number between 0 and 1" generate --top-p=2
refused 2 "-t: '1025' is not" generate -t1025
refused 2 "-n 0 generates nothing" generate -m $model -n 0 x
refused 2 "--logit-bias: '5' is not ID=NUMBER" generate -m $model --logit-bias 5 x
refused 2 "--logit-bias: 'x=1' is not" generate -m $model --logit-bias x=1 x
refused 2 "--logit-bias: '1=nan' is not" generate -m $model --logit-bias 1=nan x
refused 2 "logit_bias: token 128 is not below the vocabulary's 128" \
    generate -m $model --logit-bias 128=1 x
refused 2 "stop string 0 has 0 bytes" generate -m $model --stop '' x
refused 2 "there is no backend 'abacus'; known are auto, cpu, gpu and ref" generate -m $model --backend abacus x
refused 2 "KV type 'q4' is not supported" generate -m $model --kv-type q4 x
refused 2 "the prompt is given 2 times" generate -m $model -p a b
refused 2 "the prompt is given 2 times" generate -m $model --tokens 1 -f $model
refused 2 "--logprobs prints nothing without --json" generate -m $model --logprobs 2 x
refused 2 "'x' is not a token id" generate -m $model --tokens 1,x
refused 2 "'-1' is not a token id" detokenize -m $model -- -1
refused 2 "token 999 at 1: the vocabulary has ids 0 to 127" detokenize -m $model 1 999
refused 2 "no ids" detokenize -m $model
refused 2 "text is given twice" tokenize -m $model -f $model text
refused 2 "--tokens is missing" logits -m $model -o "$dir/x"
refused 2 "--output is missing" logits -m $model --tokens 1
refused 2 "--tokens is empty" logits -m $model --tokens "" -o "$dir/x"
refused 2 "token 1 is 128, not below the vocabulary's 128" \
    logits -m $model --tokens 1,128 -o "$dir/x"
refused 1 "300 tokens do not fit the context of 256" \
    logits -m $model --tokens "$(seq -s, 1 100),$(seq -s, 1 100),$(seq -s, 1 100)" -o "$dir/x"
[ -e "$dir/x" ] && fail "left a file behind"
refused 2 "nothing to measure" bench -m $model -p 0 -n 0
refused 2 "--n-prompt: 'x' is not a number" bench -m $model -p x
refused 2 "no completions for 'tcsh'" completions tcsh
refused 2 "there is no command 'frob'" help frob
refused 2 "there is no chat format 'frob'" chat -m $model --chat-format frob
refused 5 "chat template is missing; choose a chat format by name" chat -m $model
refused 2 "log" generate -m $model --log shout x

# every spelling of a flag means the same
run 0 generate -m $model --temp 0 -n 4 hello
cp "$dir/out" "$dir/first"
for args in "--model=$model --temp=0.0 -n4" "-m$model --temp +0 --n-predict=4"; do
    # shellcheck disable=SC2086
    run 0 generate $args hello
    cmp -s "$dir/out" "$dir/first" || fail "another text"
done
run 0 generate hello -m $model --temp 0 --n-predict 4 --no-json --json --no-json
cmp -s "$dir/out" "$dir/first" || fail "another text"
run 0 generate -m $model --temp 0 -n 4 -- hello
cmp -s "$dir/out" "$dir/first" || fail "another text"
run 0 tokenize -m $model --json -- --temp
says out '[12,12,'
run 0 tokenize -m $model --json -5
says out '[12,20]'
run 0 generate -m $model -n 2 --temp 5 --temp 0 hello # the last one counts
head -c 2 "$dir/first" | cmp -s - "$dir/out" || head -c "$(wc -c <"$dir/out")" "$dir/first" |
    cmp -s - "$dir/out" || fail "the last flag does not count"

# ---- help for every command, and all the ways to ask for it
run 0 help
cp "$dir/out" "$dir/overview"
for how in --help -h; do
    run 0 $how
    cmp -s "$dir/out" "$dir/overview" || fail "another overview"
done
"$rocmforge" help --json | tr '{' '\n' >"$dir/table"
sed -n 's/^"name":"\([^"]*\)".*/\1/p' "$dir/table" >"$dir/commands"
[ "$(wc -l <"$dir/commands")" -ge 16 ] || { echo "FAILED: help --json lists too few commands"; failed=1; }
while read -r first second; do
    run 0 help "$first" ${second:+"$second"}
    says out "rocmforge $first${second:+ $second}"
    says out "Flags of every command:"
    cp "$dir/out" "$dir/help"
    run 0 "$first" ${second:+"$second"} --help
    cmp -s "$dir/out" "$dir/help" || fail "--help differs from help"
    grep -qF -- "  $first${second:+ $second} " "$dir/overview" || fail "is not in the overview"
    awk 'length($0) > 120' "$dir/help" | grep -q . && fail "a line of its help is over 120 bytes"
done <"$dir/commands"
run 0 gguf --help
says out "rocmforge gguf dequant FILE TENSOR"
run 0 --version
says out "rocmforge 0."
sed -n 's/^"flag":"\(--[a-z0-9-]*\)".*/\1/p' "$dir/table" | sort -u >"$dir/flags"
[ "$(wc -l <"$dir/flags")" -ge 50 ] || { echo "FAILED: help --json lists too few flags"; failed=1; }

# ---- whatever a flag is given, the program ends in order: a result or one of its own exit codes
# (RF_TEST_SMALL: with one of the two commands in turns)
one="generate hello" other="chat --chat-format plain"
for value in '' 0 -1 1 999999999 nan = 4,4 "$(printf '\377')"; do
    while read -r flag; do
        swap=$one one=$other other=$swap
        for command in "$one" "$other"; do
            [ -n "${RF_TEST_SMALL:-}" ] && [ "$command" = "$other" ] && continue
            last="rocmforge $command $flag=$value" n_checks=$((n_checks + 1))
            # shellcheck disable=SC2086
            "$rocmforge" $command "$flag=$value" -m $model -n 1 -t 1 \
                >/dev/null 2>"$dir/err" </dev/null
            code=$?
            [ $code -le 6 ] || fail "exit code $code: $(head -c 300 "$dir/err")"
        done
    done <"$dir/flags"
done

# ---- man page and completions
run 0 man
cp "$dir/out" "$dir/man"
while read -r name; do
    grep -qx -- "\.It Cm $name.*" "$dir/man" || fail "command $name is missing"
done <"$dir/commands"
while read -r flag; do
    grep -qE -- "^\.It .*Fl \\\\-${flag#--}( |\$)" "$dir/man" || fail "flag $flag is missing"
done <"$dir/flags"
for code in 0 1 2 3 4 5 6 7 130; do
    grep -qx "\.It $code" "$dir/man" || fail "exit code $code is missing"
done
if command -v mandoc >/dev/null 2>&1; then
    mandoc -T lint <"$dir/man" >"$dir/lint" 2>&1 || fail "mandoc: $(cat "$dir/lint")"
    [ -s "$dir/lint" ] && fail "mandoc: $(cat "$dir/lint")"
else
    echo "left out: mandoc -T lint (mandoc is not installed)"
fi
for shell in bash zsh fish; do
    run 0 completions $shell
    for word in generate dequant --n-predict --dry-multiplier; do
        grep -qF -- "${word#--}" "$dir/out" || fail "$word is missing"
    done
    if command -v $shell >/dev/null 2>&1; then
        $shell -n "$dir/out" 2>"$dir/err" || fail "$shell cannot parse it: $(head -3 "$dir/err")"
    else
        echo "left out: $shell -n (not installed)"
    fi
done
if command -v bash >/dev/null 2>&1; then
    "$rocmforge" completions bash >"$dir/completions"
    last="bash completion"
    bash -c '. "$1"; COMP_WORDS=(rocmforge gen); COMP_CWORD=1; _rocmforge; echo "${COMPREPLY[*]}"
        COMP_WORDS=(rocmforge generate --see); COMP_CWORD=2; _rocmforge; echo "${COMPREPLY[*]}"
        COMP_WORDS=(rocmforge gguf ver); COMP_CWORD=2; _rocmforge; echo "${COMPREPLY[*]}"
        COMP_WORDS=(rocmforge gguf dump --al); COMP_CWORD=3; _rocmforge; echo "${COMPREPLY[*]}"' \
        sh "$dir/completions" >"$dir/out"
    printf 'generate\n--seed\nverify\n--all\n' | cmp -s - "$dir/out" || fail "$(cat "$dir/out")"
fi

# ---- environment
last="environment"
run 3 generate -m no-such.gguf x
ROCMFORGE_GGUF=$model run 0 generate --temp 0 -n 4 hello
cmp -s "$dir/out" "$dir/first" || fail "ROCMFORGE_GGUF is not used"
ROCMFORGE_GGUF=no-such.gguf run 0 generate -m $model --temp 0 -n 4 hello # the flag wins
ROCMFORGE_MODELS=tests/data/models run 0 generate -m llama-gqa --temp 0 -n 4 hello
cmp -s "$dir/out" "$dir/first" || fail "ROCMFORGE_MODELS is not used"
run 0 generate --models-dir tests/data/models -m llama-gqa.gguf --temp 0 -n 4 hello
ROCMFORGE_MODELS=tests/data/models refused 3 "nothing-here" generate -m nothing-here x
ROCMFORGE_MODELS=$dir/absent refused 3 "set ROCMFORGE_MODELS or --models-dir to a directory" models
ROCMFORGE_MODELS=tests/data/models run 0 models
says out "tests/data/models/qwen2.gguf"
says out "llama"
ROCMFORGE_THREADS=x refused 2 "ROCMFORGE_THREADS: 'x' is not a whole number between 0 and 1024" \
    generate -m $model hello
ROCMFORGE_THREADS=x run 0 generate -m $model -t 1 -n 1 hello
ROCMFORGE_THREADS=x run 0 version # takes no such flag
ROCMFORGE_MAX_CONTEXT=4 refused 1 "the context holds 4" generate -m $model "hello hello"
ROCMFORGE_MAX_CONTEXT=4 run 0 generate -m $model -c 64 -n 1 "hello hello"
ROCMFORGE_LOG=shout refused 2 "shout" generate -m $model hello
ROCMFORGE_TOKENIZER=$model run 0 tokenize --json hello
says out '[71,68,123,78]'
RF_CPU=abacus run 2 generate -m $model -n 1 hello
says err abacus

# ---- config file: flags > environment > file > defaults
mkdir -p "$dir/conf/rocmforge"
config=$dir/conf/rocmforge/config
cat >"$config" <<END
# a comment
model = $model
temp = 0
[generate]
  n-predict = 4
stop = zzzz
[tokenize]
json = true
END
XDG_CONFIG_HOME=$dir/conf run 0 generate hello
cmp -s "$dir/out" "$dir/first" || fail "the config file is not used"
XDG_CONFIG_HOME=$dir/conf run 0 tokenize hello
says out '[71,68,123,78]'
mkdir -p "$dir/.config" && cp -r "$dir/conf/rocmforge" "$dir/.config/"
XDG_CONFIG_HOME='' run 0 generate hello
cmp -s "$dir/out" "$dir/first" || fail "the config file in the home directory is not used"
XDG_CONFIG_HOME=$dir/conf ROCMFORGE_GGUF=tests/data/models/qwen3.gguf run 0 generate hello
cmp -s "$dir/out" "$dir/first" && fail "the environment does not win over the file"
XDG_CONFIG_HOME=$dir/conf ROCMFORGE_GGUF=no-such.gguf run 0 generate -m $model hello
cmp -s "$dir/out" "$dir/first" || fail "the flag does not win"
XDG_CONFIG_HOME=$dir/conf run 0 generate -n 2 hello
[ "$(wc -c <"$dir/out")" -lt "$(wc -c <"$dir/first")" ] || fail "the flag does not win over the file"
ROCMFORGE_CONFIG=$config run 0 generate --config "$config" hello
printf 'temp = 0\nmodel = %s\nn-predict = 2\n[generate]\nn-predict = 4\n' $model >"$dir/c"
run 0 generate --config "$dir/c" hello
cmp -s "$dir/out" "$dir/first" || fail "a command's own section does not win"
bad_config() { # TEXT-OF-ERROR CONTENT
    printf "$2" >"$dir/c"
    refused 4 "$1" generate --config "$dir/c" hello
}
bad_config "$dir/c: unknown setting 'frob'" 'frob = 1\n'
bad_config "$dir/c: unknown setting 'tensors'" '[generate]\ntensors = true\n'
bad_config "$dir/c: there is no command [frob]" '[frob]\ntemp = 1\n'
bad_config "$dir/c:2: expected 'flag = value'" 'temp = 1\nnonsense\n'
bad_config "$dir/c:1: the line is longer than 190 bytes" "system = $(printf '%0250d' 1)\n"
bad_config "$dir/c:2: the line has a byte 0" 'temp = 1\nse\000ed = 3\n'
printf 'temp = hot\n' >"$dir/c"
refused 2 "$dir/c: temp: 'hot' is not a number" generate --config "$dir/c" hello
refused 3 "$dir/absent" generate --config "$dir/absent" hello
refused 3 "directory" generate --config "$dir" hello

# ---- colours: never into a file unless asked for, and --no-color and NO_COLOR mean no
"$rocmforge" doctor >"$dir/plain" 2>&1
"$rocmforge" doctor --color >"$dir/colour" 2>&1
NO_COLOR=1 "$rocmforge" doctor --no-color >"$dir/none" 2>&1
last=doctor
grep -q "$(printf '\033')" "$dir/plain" && fail "colours without a terminal"
grep -q "$(printf '\033')" "$dir/colour" || fail "no colours with --color"
grep -q "$(printf '\033')" "$dir/none" && fail "colours with --no-color"

# ---- documents: commands and flags they show exist
for page in README.md docs/*.md CONTRIBUTING.md; do
    [ -f "$page" ] || continue
    last=$page
    grep -oE '(^|[$] |[`/])rocmforge [a-z]+( (dump|verify|dequant))?' "$page" |
        sed 's/.*rocmforge //' | sort -u >"$dir/shown"
    while read -r name; do
        case $name in gguf) continue ;; esac # the family as a whole
        grep -qxF -- "$name" "$dir/commands" ||
            grep -qxF -- "${name%% *}" "$dir/commands" || fail "there is no command '$name'"
    done <"$dir/shown"
    grep -E '(^|[$] |[`/])rocmforge [a-z]' "$page" | grep -oE -- ' --[a-z][a-z0-9-]*' |
        sed 's/^ //' | sort -u >"$dir/shown"
    while read -r flag; do
        grep -qxF -- "--${flag#--no-}" "$dir/flags" || grep -qxF -- "$flag" "$dir/flags" ||
            fail "there is no flag $flag"
    done <"$dir/shown"
done

echo "$n_checks runs"
exit $failed
