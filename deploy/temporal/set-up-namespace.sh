#!/bin/sh
# Makes the namespace TEMPORAL_NAMESPACE of the server at TEMPORAL_ADDRESS, where there is none, sets
# its retention, and registers the search attributes. May be run again.
set -eu

RETENTION=90d
KEYWORDS="PerdureStatus PerdureAgent PerdureSession PerdureWaiting"
INTEGERS="PerdureTokens"
NUMBERS="PerdureCost"

# The port is open before the server is whole.
tries=60
until temporal operator cluster health > /dev/null 2>&1; do
  tries=$((tries - 1))
  if [ "$tries" = 0 ]; then
    temporal operator cluster health
  fi
  sleep 1
done

# By its flag: `create` does not look at TEMPORAL_NAMESPACE.
if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" > /dev/null 2>&1; then
  temporal operator namespace update --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
else
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

register() {
  kind=$1
  shift
  for name in "$@"; do
    # A new namespace is known to all of the server a few seconds later.
    tries=30
    until temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" \
      --name "$name" --type "$kind"; do
      tries=$((tries - 1))
      if [ "$tries" = 0 ]; then
        exit 1
      fi
      sleep 1
    done
  done
}

# shellcheck disable=SC2086 # lists of words
{
  register Keyword $KEYWORDS
  register Int $INTEGERS
  register Double $NUMBERS
}
