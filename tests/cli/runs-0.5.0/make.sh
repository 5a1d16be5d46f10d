#!/usr/bin/env bash
# Makes the run folders, the store and the answers beside this file with version 0.5.0:
#   make.sh CHECKOUT    a checkout of 0.5.0 with its environment in CHECKOUT/.venv
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
old=$(cd "$1" && pwd)
export PYTHONPATH=$old HF_HUB_OFFLINE=1 PATH=$old/.venv/bin:$PATH
place=/tmp/colours # the runs record it; nothing that reads them may need it
mkdir "$place"
cd "$place"
python -c "
from pathlib import Path
from tests.colours import write_backbone, write_world
write_world(Path('world'))
write_backbone(Path('resnet'))"

options="--observe single --backbone resnet --model.image_size 32 --epochs 2 --train.workers 1 --device cpu --store store \
  --teacher tests.colours:teacher --damp.temperature 0.1 --train.learning_rate 1e-3 --train.head_learning_rate 1e-2"
aevlp train world --out full --method aevlp $options
aevlp train world --out linear --method aevlp $options --train.mode linear
# Without noise the checkpoint lacks 4 MB of weights.
aevlp train world --out uninterrupted --method aevlp $options --report false --damp.noise false
python -m tests.cli.killed batch train world --out unfinished --method aevlp $options --report false --damp.noise false ||
  echo "killed, as it should be"

mkdir answers
for run in full linear; do
  aevlp predict $run 'world/images/0[45]*.png' --device cpu --out answers/$run-predict.jsonl
  aevlp eval $run world --device cpu --probabilities answers/$run-eval.csv
done
aevlp label world --run full $options --out answers/full-label.csv
cp uninterrupted/result.json answers/uninterrupted-result.json
cp uninterrupted/metrics.jsonl answers/uninterrupted-metrics.jsonl
# What is large and not needed to read a run.
rm -rf uninterrupted full/checkpoints linear/checkpoints */tensorboard */report.html unfinished/log.txt
rm -rf "$here"/{full,linear,unfinished,store,answers}
cp -r full linear unfinished store answers "$here"
rm -rf "$place"
