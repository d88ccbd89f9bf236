#!/bin/sh
# Writes deploy/*.env from the examples, each with a password of its own, for its owner only. Files
# that are there already stay as they are.
set -eu
umask 077
cd "$(dirname "$0")"

for example in *.env.example; do
  file=${example%.example}
  if [ -e "$file" ]; then
    echo "deploy/$file is there already."
    continue
  fi
  secret=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
  sed "s/CHANGE-ME/$secret/" "$example" > "$file"
  echo "deploy/$file"
done
