#!/bin/sh
# quantization_table.sh [ROCMFORGE] [MODEL] [MIX...] - what every format and mix (or those named) costs,
# as a table in Markdown:
# size, and against the model itself perplexity, Kullback-Leibler divergence and how often the
# likeliest token stays, on a text that the model has not seen; without and with an importance
# matrix of another such text.  Both texts are made by tools/demo_model.  The figures of
# docs/quantization.md are printed by this.
set -eu
cd "$(dirname "$0")/.."
rocmforge=${1:-build/rocmforge}
model=${2:-models/demo.gguf}
[ $# -lt 2 ] && shift $# || shift 2
[ $# -gt 0 ] || set -- F16 BF16 Q8_0 MXFP6_E2M3 MXFP6_E3M2 Q6_K Q5_1 Q5_K_M Q5_K_S Q5_0 Q4_1 Q4_K_M Q4_K_S \
    Q4_0 IQ4_NL IQ4_XS MXFP4 Q3_K_L Q3_K_M Q3_K_S IQ3_M IQ3_S IQ3_XS IQ3_XXS Q2_K Q2_K_S IQ2_M IQ2_S \
    IQ2_XS IQ2_XXS TQ2_0 TQ1_0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

text() { # text SEED: 0.1 MB of the generator's stories and talk
    python3 tools/demo_model/corpus.py --out "$dir/$1" --megabytes 0.1 --seed "$1" --shards 1 \
        --jobs 1 >/dev/null
    echo "$dir/$1/000.txt"
}

figure() { # figure NAME: a number from the JSON on standard input
    sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"
}

measure() { # measure FILE: the cells of one quantisation
    "$rocmforge" perplexity -m "$1" --kl-base "$dir/base" --json >"$dir/json"
    awk -v p="$(figure perplexity <"$dir/json")" -v kl="$(figure kl <"$dir/json")" \
        -v same="$(figure same_top <"$dir/json")" \
        'BEGIN { printf "%.4f | %.5f | %.2f %%", p, kl, 100 * same }'
}

"$rocmforge" perplexity -m "$model" -f "$(text 99)" --parse-special --chunks 6 --save-logits "$dir/base" --json \
    >"$dir/json"
"$rocmforge" imatrix -m "$model" -f "$(text 98)" --parse-special --chunks 6 -o "$dir/imatrix" >/dev/null
echo "The model itself: perplexity $(figure perplexity <"$dir/json") over" \
    "$(figure tokens <"$dir/json") tokens."
echo
echo '| mix | MB | bits per weight | perplexity | KL divergence | same likeliest token | with importance: perplexity | KL divergence | same likeliest token |'
echo '|---|---|---|---|---|---|---|---|---|'
for mix; do
    "$rocmforge" quantize "$model" "$dir/plain" $mix --json >"$dir/sizes" 2>/dev/null
    "$rocmforge" quantize "$model" "$dir/weighted" $mix --imatrix "$dir/imatrix" >/dev/null 2>&1
    awk -v mix=$mix -v bytes="$(wc -c <"$dir/plain")" \
        -v bits="$(figure bits_per_weight <"$dir/sizes")" \
        'BEGIN { printf "| %s | %.1f | %.2f | ", mix, bytes / 1e6, bits }'
    echo "$(measure "$dir/plain") | $(measure "$dir/weighted") |"
done
