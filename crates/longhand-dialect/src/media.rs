//! How long a recording plays, read from its first bytes.

use longhand_core::{Media, MediaKind};

use crate::image::decode;

/// Reads a recording from base64 data; `format` is what the request calls it, such as `wav` or `mp3`.
pub(crate) fn recording(kind: MediaKind, base64: &str, format: Option<&str>) -> Media {
    let bytes = decoded_len(base64);
    let duration_ms = wav_rate(base64)
        .or_else(|| matches!(format, Some("wav" | "pcm16")).then_some(PCM_BYTES_PER_SECOND))
        .map(|rate| bytes.saturating_sub(WAV_HEADER_BYTES) as u64 * 1_000 / rate);
    Media { kind, bytes, duration_ms, transcript: None }
}

/// Reads a recording from its address, which may hold the recording itself.
pub(crate) fn recording_at(kind: MediaKind, url: &str) -> Media {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once("base64,"));
    data.map_or_else(|| Media::elsewhere(kind), |(_, data)| recording(kind, data, None))
}

/// What `OpenAI` takes and gives as `pcm16`: samples of 16 bits, 24,000 a second.
const PCM_BYTES_PER_SECOND: u64 = 48_000;

const WAV_HEADER_BYTES: usize = 44;

/// The bytes a second that the header of a WAV file names.
fn wav_rate(base64: &str) -> Option<u64> {
    let header = decode(base64, WAV_HEADER_BYTES);
    if !header.starts_with(b"RIFF") || header.get(8..16)? != b"WAVEfmt " {
        return None;
    }
    let rate = u32::from_le_bytes(header.get(28..32)?.try_into().ok()?);
    Some(u64::from(rate)).filter(|rate| *rate > 0)
}

/// How many bytes base64 data stands for.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_follows_from_the_header_or_the_format() {
        // One second of silence: 8,000 samples of 8 bits.
        let header = "UklGRmQfAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YUAfAAA";
        let wav = format!("{header}{}", "g".repeat((8_044 * 4 / 3) - header.len()));
        let audio = |data: &str, format| recording(MediaKind::Audio, data, format);
        let ms = audio(&wav, Some("wav")).duration_ms.unwrap();
        assert!((990..=1_000).contains(&ms), "{ms}");
        assert_eq!(audio(&"A".repeat(64_000 + 60), Some("pcm16")).duration_ms, Some(1_000));
        let mp3 = audio(&"A".repeat(64_000), Some("mp3"));
        assert_eq!((mp3.bytes, mp3.duration_ms), (48_000, None));
        for (base64, bytes) in [("", 0), ("QQ==", 1), ("QUE=", 2), ("QUFB", 3), ("QUFBQQ", 4)] {
            assert_eq!(decoded_len(base64), bytes, "{base64}");
        }
        assert_eq!(recording_at(MediaKind::Video, "https://x"), Media::elsewhere(MediaKind::Video));
        assert_eq!(recording_at(MediaKind::Video, "data:video/mp4;base64,QUFB").bytes, 3);
    }
}
