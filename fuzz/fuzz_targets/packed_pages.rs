//! Runs the body `packed_pages` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::decoders::packed_pages(bytes));
