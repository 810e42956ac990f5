// The classic capture format (draft-ietf-opsawg-pcap): a file header, then one record per frame, in the
// byte order of the machine that wrote it.
import { damaged } from './damage.js';

const MAGIC_MICROSECONDS = 0xa1b2c3d4;
const MAGIC_NANOSECONDS = 0xa1b23c4d;
const FILE_HEADER_BYTES = 24;
const RECORD_HEADER_BYTES = 16;
/** Offset of the number of captured bytes in a record header. */
const CAPTURED_LENGTH = 8;
/** The format has no limit; readers agree on this one, which tells damage from data. */
export const FRAME_BYTES_MAX = 262144;

const isMagic = (value: number): boolean => value === MAGIC_MICROSECONDS || value === MAGIC_NANOSECONDS;

export const isPcap = (file: DataView): boolean =>
  isMagic(file.getUint32(0, true)) || isMagic(file.getUint32(0, false));

/** Calls `frame` with offset and length of each frame. Timestamps are of no use to a replay. */
export function readPcap(file: DataView, frame: (offset: number, length: number) => void): void {
  const size = file.byteLength;
  const little = isMagic(file.getUint32(0, true));
  if (size < FILE_HEADER_BYTES) damaged(0, `a file header of ${FILE_HEADER_BYTES} bytes`, `${size}`);
  const major = file.getUint16(4, little);
  if (major !== 2) damaged(4, 'pcap version 2', `version ${major}`);
  let at = FILE_HEADER_BYTES;
  while (at < size) {
    if (size - at < RECORD_HEADER_BYTES)
      damaged(at, `a record header of ${RECORD_HEADER_BYTES} bytes`, `${size - at} bytes before the end`);
    const length = file.getUint32(at + CAPTURED_LENGTH, little);
    if (length > FRAME_BYTES_MAX)
      damaged(at + CAPTURED_LENGTH, `a captured length of at most ${FRAME_BYTES_MAX}`, `${length}`);
    at += RECORD_HEADER_BYTES;
    if (size - at < length) damaged(at, `a frame of ${length} bytes`, `${size - at} bytes before the end`);
    frame(at, length);
    at += length;
  }
}
