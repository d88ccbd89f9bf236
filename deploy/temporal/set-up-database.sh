#!/bin/sh
# Makes Temporal's two databases, and brings their schema to the version of these tools. What is
# there already stays: an upgrade of the server runs it again.
# Where PostgreSQL is, and as whom: SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD, SQL_PLUGIN.
set -eu

set_up() {
  temporal-sql-tool --database "$1" create-database
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema \
    --schema-dir "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

set_up temporal temporal
set_up temporal_visibility visibility
