//! One request as a folder: its name, its files, and finding it again.

use super::{CANCELLED, REPLY, USAGE};
use crate::Request;
use crate::disk::{hidden_name, read_text, slug};
use crate::support::headed_text;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
const MAX_LETTER: u64 = 64 << 20;

/// `request.json`
#[derive(Serialize)]
struct Letter<'a> {
    version: u32,
    id: &'a str,
    hash: &'a str,
    image_files: &'a [String],
    request: &'a Request,
}

/// What tells one request from another.
#[derive(Deserialize)]
struct Seal {
    version: u32,
    hash: String,
}

/// The folder of the request with this hash, if there is one. The oldest, should there be several.
pub(super) fn find(dir: &Path, hash: &str) -> io::Result<Option<PathBuf>> {
    let ending = format!("-{}", short(hash));
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| !name.starts_with('.') && name.ends_with(&ending)).map(str::to_owned));
    }
    names.sort_unstable();
    let is_it = |folder: &PathBuf| {
        let seal = read_text(&folder.join("request.json"), MAX_LETTER).ok();
        let seal = seal.and_then(|text| serde_json::from_str::<Seal>(&text).ok());
        // A folder behind a link is somebody else's.
        seal.is_some_and(|seal| seal.version == VERSION && seal.hash == hash) && !folder.is_symlink()
    };
    Ok(names.into_iter().map(|name| dir.join(name)).find(is_it))
}

/// Writes the request as a hidden folder and renames it into sight.
pub(super) fn put(dir: &Path, request: &Request, hash: &str) -> io::Result<PathBuf> {
    let id = id(request, hash, jiff::Timestamp::now());
    let hidden = dir.join(hidden_name(&id));
    let shown = dir.join(&id);
    fs::create_dir(&hidden)?;
    let put = fill(&hidden, request, &id, hash).and_then(|()| fs::rename(&hidden, &shown));
    if put.is_err() {
        let _ = fs::remove_dir_all(&hidden);
    }
    put.map(|()| shown)
}

fn fill(folder: &Path, request: &Request, id: &str, hash: &str) -> io::Result<()> {
    let mut image_files = Vec::new();
    for (index, image) in request.images.iter().enumerate() {
        let stem = image.name.rsplit_once('.').map_or(image.name.as_str(), |(stem, _)| stem);
        let ending = slug(image.media_type.rsplit_once('/').map_or("bin", |(_, kind)| kind), 8);
        let file = format!("image-{:02}-{}.{ending}", index + 1, slug(stem, 40));
        fs::write(folder.join(&file), &image.bytes)?;
        image_files.push(file);
    }
    fs::write(folder.join("request.md"), for_people(request, id, &image_files))?;
    let letter = Letter { version: VERSION, id, hash, image_files: &image_files, request };
    fs::write(folder.join("request.json"), serde_json::to_vec_pretty(&letter)?)
}

/// Sorts by time, says what it is, and ends with the request's hash.
pub(super) fn id(request: &Request, hash: &str, now: jiff::Timestamp) -> String {
    let label = &request.label;
    let time = now.strftime("%Y%m%dT%H%M%S");
    format!("{time}-{}-{}-{:02}-{}", slug(&label.problem, 40), slug(&label.role, 20), label.ordinal, short(hash))
}

fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

fn for_people(request: &Request, id: &str, image_files: &[String]) -> String {
    let label = &request.label;
    let mut text = format!(
        "<!-- {id}\n     {} call {} for the problem {} on {}. How to answer is said at the end. -->\n\n{}",
        label.role,
        label.ordinal,
        label.problem,
        label.target,
        headed_text(request)
    );
    if !image_files.is_empty() {
        text.push_str("\n# Images, shown with the last part\n\n");
        for (file, image) in image_files.iter().zip(&request.images) {
            let _ = writeln!(text, "- {file}: {}", image.name);
        }
    }
    if let Some(limit) = request.max_output_tokens {
        let _ = write!(text, "\nThe answer has at most {limit} tokens.\n");
    }
    let _ = write!(
        text,
        "
---

# How to answer

Write the whole reply to another file in this folder, then rename it:

    mv reply.tmp {REPLY}

It is UTF-8 text of at most 4 MiB. Before the rename, a file `{USAGE}` may be put beside it, every field optional:

    {{\"input\": 1200, \"cached_input\": 0, \"output\": 800, \"reasoning\": 0, \"cost_usd\": 0.01, \"model\": \"who answered\"}}

A file `{CANCELLED}` in this folder means that nobody waits for the answer at present. The folder stays when it is answered.
"
    );
    text
}
