//! Compressed bytes, opened to a bounded size.

use std::io::{BufRead, BufReader, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::DialectError;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How many codings may lie on top of each other.
const CODINGS_MAX: usize = 2;

/// How much an inflated body grows by at a time.
const STEP_BYTES: usize = 64 * 1024;

/// Decompresses zstd data to at most `bytes_max` bytes; other data is returned unchanged.
pub fn unpack(bytes: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, DialectError> {
    if bytes.starts_with(&ZSTD_MAGIC) { zstd(&bytes, bytes_max, &mut |_| true) } else { Ok(bytes) }
}

/// Decodes a body to at most `bytes_max`; `coding` is what its `Content-Encoding` says.
///
/// ```
/// use longhand_dialect::{DialectError, decode};
///
/// assert_eq!(decode(b"{}", "identity", 100)?, b"{}");
/// assert!(matches!(decode(b"{}", "br", 100), Err(DialectError::UnknownCoding(_))));
/// # Ok::<(), DialectError>(())
/// ```
pub fn decode(bytes: &[u8], coding: &str, bytes_max: u64) -> Result<Vec<u8>, DialectError> {
    decode_within(bytes, coding, bytes_max, &mut |_| true)
}

/// Like [`decode`], with limited memory: `room` is asked before more bytes are allocated.
///
/// The sum of all granted bytes is at least the peak use. If `room` refuses, the result is
/// [`DialectError::TooLarge`].
pub fn decode_within(
    bytes: &[u8],
    coding: &str,
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<u8>, DialectError> {
    let mut decoded = None;
    for name in codings(coding)? {
        let bytes = decoded.as_deref().unwrap_or(bytes);
        decoded = Some(match name.as_str() {
            "zstd" => zstd(bytes, bytes_max, room)?,
            "gzip" | "x-gzip" => gzip(bytes, bytes_max, room)?,
            "deflate" => deflate(bytes, bytes_max, room)?,
            _ => return Err(DialectError::UnknownCoding(name)),
        });
    }
    match decoded {
        Some(decoded) => Ok(decoded),
        None if !room(bytes.len() as u64) => Err(too_large(bytes.len() as u64, bytes_max)),
        None => within(bytes.to_vec(), bytes_max),
    }
}

/// Reads a body piece by piece, so that little of it is in memory at a time.
///
/// What comes before damage is read.
pub fn decoder<'b>(bytes: &'b [u8], coding: &str) -> Result<Box<dyn Read + 'b>, DialectError> {
    let mut reader: Box<dyn Read + 'b> = Box::new(bytes);
    for name in codings(coding)? {
        reader = match name.as_str() {
            "zstd" => Box::new(ZstdFrames { source: BufReader::new(reader), frame: None }),
            "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(reader)),
            "deflate" => {
                let mut source = BufReader::new(reader);
                if source.fill_buf().is_ok_and(has_header) {
                    Box::new(ZlibDecoder::new(source))
                } else {
                    Box::new(DeflateDecoder::new(source))
                }
            }
            _ => return Err(DialectError::UnknownCoding(name)),
        };
    }
    Ok(reader)
}

/// Reads frames of zstd one after the other.
struct ZstdFrames<'b> {
    source: BufReader<Box<dyn Read + 'b>>,
    frame: Option<Box<FrameDecoder>>,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let wrong = std::io::Error::other::<FrameDecoderError>;
        loop {
            let Some(frame) = &mut self.frame else {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                let mut frame = Box::new(FrameDecoder::new());
                frame.init(&mut self.source).map_err(wrong)?;
                self.frame = Some(frame);
                continue;
            };
            if frame.can_collect() == 0 {
                if frame.is_finished() {
                    self.frame = None;
                    continue;
                }
                let some = BlockDecodingStrategy::UptoBlocks(1);
                frame.decode_blocks(&mut self.source, some).map_err(wrong)?;
                continue;
            }
            return frame.read(buffer).map_err(std::io::Error::other);
        }
    }
}

/// The codings of a body that must be undone, in that order: the last one was applied last.
fn codings(coding: &str) -> Result<Vec<String>, DialectError> {
    let named = coding.split(',').map(|name| name.trim().to_ascii_lowercase());
    let mut codings: Vec<String> =
        named.filter(|name| !name.is_empty() && name != "identity").collect();
    if codings.len() > CODINGS_MAX {
        return Err(DialectError::UnknownCoding(coding.to_owned()));
    }
    codings.reverse();
    Ok(codings)
}

fn too_large(bytes: u64, max: u64) -> DialectError {
    DialectError::TooLarge { bytes, max }
}

/// Extends the output buffer if the limits allow it.
fn grow(
    unpacked: &mut Vec<u8>,
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<(), DialectError> {
    let more = STEP_BYTES.max(unpacked.len() / 2);
    if !room(more as u64) {
        return Err(too_large((unpacked.len() + more) as u64, bytes_max));
    }
    unpacked.reserve_exact(more);
    Ok(())
}

/// Reads to the end, or to somewhat more than `bytes_max`.
fn read_all(
    mut reader: impl Read,
    unpacked: &mut Vec<u8>,
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<(), UnpackFailure> {
    loop {
        if unpacked.len() as u64 > bytes_max {
            return Ok(());
        }
        if unpacked.len() == unpacked.capacity() {
            grow(unpacked, bytes_max, room).map_err(UnpackFailure::TooLarge)?;
        }
        let (begin, end) = (unpacked.len(), unpacked.capacity().min(unpacked.len() + STEP_BYTES));
        unpacked.resize(end, 0);
        let read = reader.read(&mut unpacked[begin..]);
        unpacked.truncate(begin + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(UnpackFailure::Broken(error.to_string())),
        }
    }
}

/// Why something cannot be unpacked.
enum UnpackFailure {
    TooLarge(DialectError),
    Broken(String),
}

impl UnpackFailure {
    fn or(self, broken: impl FnOnce(String) -> DialectError) -> DialectError {
        match self {
            Self::TooLarge(error) => error,
            Self::Broken(what) => broken(what),
        }
    }
}

fn within(bytes: Vec<u8>, max: u64) -> Result<Vec<u8>, DialectError> {
    let size = bytes.len() as u64;
    if size > max { Err(too_large(size, max)) } else { Ok(bytes) }
}

fn zstd(
    bytes: &[u8],
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<u8>, DialectError> {
    let mut unpacked = Vec::new();
    let mut rest = bytes;
    // The decoder has a window besides the output, which is never larger than the output.
    let mut room = |more: u64| room(2 * more);
    // A file that was appended to has several frames.
    while !rest.is_empty() && unpacked.len() as u64 <= bytes_max {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|error| DialectError::Zstd(error.to_string()))?;
        read_all(decoder, &mut unpacked, bytes_max, &mut room)
            .map_err(|error| error.or(DialectError::Zstd))?;
    }
    within(unpacked, bytes_max)
}

fn gzip(
    bytes: &[u8],
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<u8>, DialectError> {
    let size = gzip_size(bytes).filter(|size| *size <= bytes_max);
    // One more, so that the end is seen without room for more.
    let size = size.map_or(0, |size| size + 1);
    if size > 0 && !room(size) {
        return Err(too_large(size, bytes_max));
    }
    let mut unpacked = Vec::with_capacity(size as usize);
    let decoder = MultiGzDecoder::new(bytes);
    read_all(decoder, &mut unpacked, bytes_max, room)
        .map_err(|error| error.or(|what| DialectError::Coding { coding: "gzip", what }))?;
    within(unpacked, bytes_max)
}

/// The size that a gzip file says its content has, if it can be true. To know it saves moving the content as it grows.
fn gzip_size(bytes: &[u8]) -> Option<u64> {
    // Nothing is packed to less than this part of its size.
    const RATIO_MAX: u64 = 1_032;
    let size = u64::from(u32::from_le_bytes(*bytes.last_chunk()?));
    (size / RATIO_MAX <= bytes.len() as u64).then_some(size)
}

fn has_header(bytes: &[u8]) -> bool {
    matches!(bytes, [first, second, ..]
        if first & 0x0f == 8 && (u32::from(*first) << 8 | u32::from(*second)).is_multiple_of(31))
}

/// What HTTP calls deflate has a header of two bytes, which some leave out.
fn deflate(
    bytes: &[u8],
    bytes_max: u64,
    room: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<u8>, DialectError> {
    let headed = has_header(bytes);
    let wrong = |what: String| DialectError::Coding { coding: "deflate", what };
    let mut stream = Decompress::new(headed);
    let mut unpacked = Vec::new();
    loop {
        if unpacked.len() == unpacked.capacity() {
            grow(&mut unpacked, bytes_max, room)?;
        }
        let (taken, made) = (stream.total_in(), stream.total_out());
        let rest = bytes.get(taken as usize..).unwrap_or_default();
        let status = stream
            .decompress_vec(rest, &mut unpacked, FlushDecompress::None)
            .map_err(|error| wrong(error.to_string()))?;
        if status == Status::StreamEnd || unpacked.len() as u64 > bytes_max {
            return within(unpacked, bytes_max);
        }
        if (stream.total_in(), stream.total_out()) == (taken, made) {
            return Err(wrong("it ends too early".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn zstd_of(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn gzip_of(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
    }

    fn zlib_of(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
    }

    fn deflate_of(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
    }

    #[test]
    fn room_is_asked_for_before_it_is_used_and_no_more_is_used_than_granted() {
        let body = vec![b' '; 8 << 20];
        for (coding, encode) in ALL.into_iter().chain([("gzip, gzip", twice as Encode)]) {
            let packed = encode(&body);
            let mut granted = 0;
            let mut all = |more: u64| {
                granted += more;
                true
            };
            let unpacked = decode_within(&packed, coding, 64 << 20, &mut all).unwrap();
            assert!(unpacked == body && granted >= unpacked.capacity() as u64, "{coding}");
            assert!(granted < 4 * body.len() as u64, "{coding}: {granted}");
            for most in [0, 1 << 20, granted - 1] {
                let (mut left, mut refused) = (most, 0);
                let mut some = |more: u64| {
                    let has_room = more <= left;
                    if has_room {
                        left -= more;
                    } else {
                        refused += 1;
                    }
                    has_room
                };
                let found = decode_within(&packed, coding, 64 << 20, &mut some);
                assert!(matches!(found, Err(DialectError::TooLarge { .. })), "{coding} {most}");
                assert_eq!(refused, 1, "it ends with the first refusal");
            }
        }
    }

    fn twice(bytes: &[u8]) -> Vec<u8> {
        gzip_of(&gzip_of(bytes))
    }

    type Encode = fn(&[u8]) -> Vec<u8>;

    const ALL: [(&str, Encode); 4] =
        [("zstd", zstd_of), ("gzip", gzip_of), ("deflate", zlib_of), ("deflate", deflate_of)];

    #[test]
    fn bodies_are_decoded_as_their_header_says() {
        let body = r#"{"messages":[{"role":"user","content":"Grüße"}]}"#.repeat(9_000).into_bytes();
        let max = body.len() as u64;
        for (coding, encode) in ALL {
            assert!(decode(&encode(&body), coding, max).unwrap() == body, "{coding}");
            assert_eq!(decode(&encode(b""), coding, max).unwrap(), b"", "{coding}");
        }
        for (coding, encode) in ALL {
            let (packed, mut read) = (encode(&body), Vec::new());
            decoder(&packed, coding).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == body, "{coding} piece by piece");
            // What came before a cut is read.
            let mut read = Vec::new();
            let cut = &packed[..packed.len() - 5];
            let _ = decoder(cut, coding).unwrap().read_to_end(&mut read);
            assert!(body.starts_with(&read) && (coding == "zstd" || !read.is_empty()), "{coding}");
        }
        let (twice, mut read) = (zstd_of(&gzip_of(&body)), Vec::new());
        decoder(&twice, "gzip, zstd").unwrap().read_to_end(&mut read).unwrap();
        assert!(read == body && decoder(&twice, "br").is_err());
        let (frames, mut read) = ([zstd_of(&body), zstd_of(b"!")].concat(), Vec::new());
        decoder(&frames, "zstd").unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), body.len() + 1);
        assert!(decode(&gzip_of(&body), " X-GZip ", max).unwrap() == body);
        assert!(decode(&[gzip_of(&body), gzip_of(b"!")].concat(), "gzip", max + 1).is_ok());
        assert!(decode(&zstd_of(&gzip_of(&body)), "gzip, zstd", max).unwrap() == body);
        for nothing in ["", "identity", "Identity,"] {
            assert!(decode(&body, nothing, max).unwrap() == body);
        }
        for unknown in ["br", "gzip, br", "gzip,gzip,gzip"] {
            let decoded = decode(&gzip_of(&body), unknown, max);
            assert!(matches!(decoded, Err(DialectError::UnknownCoding(_))), "{unknown}");
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let zeros = vec![0; 32 << 20];
        for (coding, encode) in ALL {
            let bomb = encode(&zeros);
            assert!(bomb.len() < zeros.len() / 50, "{coding}: {}", bomb.len());
            for max in [0, 1, 70_000, zeros.len() as u64 - 1] {
                let Err(DialectError::TooLarge { bytes, .. }) = decode(&bomb, coding, max) else {
                    panic!("{coding} to {max}");
                };
                assert!(bytes <= max + 256 * 1024, "{coding}: {bytes} for {max}");
            }
            assert!(decode(&bomb, coding, zeros.len() as u64).is_ok());
        }
        assert!(decode(b"four", "identity", 3).is_err());
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let body: Vec<u8> = (0..2_000u32).flat_map(|at| (at * at).to_le_bytes()).collect();
        for (coding, encode) in ALL {
            let sound = encode(&body);
            for end in (0..sound.len()).step_by(7) {
                let decoded = decode(&sound[..end], coding, 1 << 20);
                assert!(end == 0 || decoded.is_err(), "{coding} cut at {end}");
            }
            for at in (0..sound.len()).step_by(3) {
                let mut damaged = sound.clone();
                damaged[at] ^= 0x55;
                let _ = decode(&damaged, coding, 1 << 20);
            }
            assert!(decode(b"{\"messages\":[]}", coding, 1 << 20).is_err(), "{coding}");
        }
    }
}
