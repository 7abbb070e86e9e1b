-- Once, when the database is made: what gate may use, and is no superuser of.
\set password `cat /etc/gate-db/password`
CREATE ROLE gate LOGIN PASSWORD :'password';
CREATE DATABASE gate OWNER gate;
