// Encodes framed texts with a library of Rust, as tests/integration/tokenize_many
// does: `tokenizer_rivals fastokens|bpe-openai FILE ROUNDS < TEXTS` prints the CPU
// seconds of the first round, of the fastest, and the ids of a round. For
// bpe-openai FILE is the name of one of its vocabularies.
use std::io::Read;

fn cpu_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn encoder(library: &str, file: &str) -> Box<dyn Fn(&str) -> usize> {
    if library == "fastokens" {
        let tokenizer = fastokens::Tokenizer::from_file(std::path::Path::new(file)).unwrap();
        return Box::new(move |text| tokenizer.encode(text).unwrap().len());
    }
    let tokenizer = if file == "o200k" { bpe_openai::o200k_base() } else { bpe_openai::cl100k_base() };
    Box::new(move |text| tokenizer.encode(text).len())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all).unwrap();
    let mut texts: Vec<&str> = Vec::new();
    let mut rest = &all[..];
    while rest.len() >= 4 {
        let len = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        texts.push(std::str::from_utf8(&rest[4..4 + len]).unwrap());
        rest = &rest[4 + len..];
    }
    let encode = encoder(&args[1], &args[2]);
    let (mut first, mut least, mut ids) = (0.0, f64::MAX, 0);
    for round in 0..args[3].parse::<usize>().unwrap() {
        let start = cpu_seconds();
        ids = texts.iter().map(|text| encode(text)).sum();
        let took = cpu_seconds() - start;
        first = if round == 0 { took } else { first };
        least = took.min(least);
    }
    println!("{first:.9} {least:.9} {ids}");
}
