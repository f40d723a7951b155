//! What has gone wrong in proxies, case by case; each test is named after the case's number.
mod bytes;
mod cache;
mod hostile;
mod keeping;
mod lineage;
mod overflow;
mod pairing;
mod recall;
mod references;
mod secrets;
mod streams;
mod undo;
