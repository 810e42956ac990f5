// Packet captures. The parsers in this folder are our own because none of the published ones could be used
// (as of 2026): pcap-parser 0.2.1 and pcap-decoder 1.0.3 know no nanosecond files and take a truncated file
// for a complete one; pcap-ng-parser 1.0.0 throws on an interface block that has no options, and knows
// neither simple packet blocks nor a second section.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { Failure, systemReason } from '../errors.js';
import { type Damage, DamageError } from './damage.js';
import { isPcap, readPcap } from './pcap.js';
import { isPcapng, readPcapng } from './pcapng.js';

export interface Capture {
  /** File name without folder. */
  name: string;
  format: 'pcap' | 'pcapng';
  /** Frames as captured: views of the file's bytes. */
  frames: Uint8Array[];
  /** Bytes of all frames. */
  bytes: number;
  /** Set if the file is damaged: where and how. `frames` holds what comes before. */
  damage?: Damage;
}

/**
 * A capture's frames from its bytes. Damage ends the reading and is reported in the result.
 * @throws Failure if the bytes are no capture at all
 */
export function parseCapture(bytes: Uint8Array, file: string): Capture {
  const name = basename(file);
  const foreign = (found: string): never => {
    throw new Failure(
      `${file}: not a capture: at byte 0 expected the magic number of pcap or pcapng, ${found}`,
    );
  };
  if (bytes.length === 0) foreign('but the file is empty');
  if (bytes.length < 4) foreign(`but the file has only ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const format = isPcap(view) ? 'pcap' : isPcapng(view) ? 'pcapng' : foreign(`found ${magic(bytes)}`);
  const capture: Capture = { name, format, frames: [], bytes: 0 };
  const frame = (offset: number, length: number) => {
    capture.frames.push(bytes.subarray(offset, offset + length));
    capture.bytes += length;
  };
  try {
    (format === 'pcap' ? readPcap : readPcapng)(view, frame);
  } catch (error) {
    if (!(error instanceof DamageError)) throw error;
    capture.damage = error.damage;
  }
  return capture;
}

const magic = (bytes: Uint8Array): string =>
  Array.from(bytes.subarray(0, 4), (byte) => byte.toString(16).padStart(2, '0')).join(' ');

/** @throws Failure if the file cannot be read or is no capture */
export async function readCapture(file: string): Promise<Capture> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(file);
  } catch (error) {
    throw new Failure(`${file}: cannot be read: ${systemReason(error)}`);
  }
  return parseCapture(bytes, file);
}
