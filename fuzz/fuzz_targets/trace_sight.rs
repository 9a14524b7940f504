//! Runs the body `trace` of the crate that looks at traces on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::sight_trace_bytes::trace(bytes));
