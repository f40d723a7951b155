-- Roles with the least rights that Longhand needs on a PostgreSQL server. Run it once in the database of the archive, as a role
-- that may make roles; it can be run again.
--
--     psql --dbname=longhand --file=postgres-roles.sql
--
-- Then give each role a password (`\password longhand_server` in psql) and open the archive once as `longhand_owner`, with
-- `longhand doctor`: that makes the tables, as it does after an upgrade that changes them. Everything else runs as
-- `longhand_server`, which can read and write rows and change no table.

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['longhand_owner', 'longhand_server', 'longhand_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', role);
        END IF;
    END LOOP;
END
$$;

-- What others than the owner make in this database is not Longhand's.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

CREATE SCHEMA IF NOT EXISTS longhand AUTHORIZATION longhand_owner;
GRANT USAGE ON SCHEMA longhand TO longhand_server, longhand_reader;

-- Tables that are there, and those that `longhand_owner` makes later.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA longhand TO longhand_server;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA longhand TO longhand_server;
GRANT SELECT ON ALL TABLES IN SCHEMA longhand TO longhand_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE longhand_owner IN SCHEMA longhand
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO longhand_server;
ALTER DEFAULT PRIVILEGES FOR ROLE longhand_owner IN SCHEMA longhand
    GRANT USAGE ON SEQUENCES TO longhand_server;
ALTER DEFAULT PRIVILEGES FOR ROLE longhand_owner IN SCHEMA longhand
    GRANT SELECT ON TABLES TO longhand_reader;

-- The version of the tables is the owner's to change.
DO $$
BEGIN
    IF to_regclass('longhand.schema_version') IS NOT NULL THEN
        REVOKE INSERT, UPDATE, DELETE ON longhand.schema_version FROM longhand_server;
    END IF;
END
$$;
