import { VringError } from '../errors.js';
import {
  FLAG_NEED_REPLY,
  FLAG_REPLY,
  FLAG_VERSION,
  HEADER_BYTES,
  PAYLOAD_MAX,
  Request,
  VERSION,
} from './protocol.js';

/** A message as it came; `fds` belong to whoever has it. */
export interface Message {
  request: number;
  flags: number;
  payload: DataView;
  fds: number[];
}

/** Name of a request for people. */
export const requestName = (request: number): string => Request[request] ?? `request ${request}`;

/** @param flags beside the version */
export function encode(request: number, flags: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, request, true);
  view.setUint32(4, VERSION | flags, true);
  view.setUint32(8, payload.length, true);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/**
 * Cuts a stream into messages. Ask for `wanted` bytes at most, so that the descriptors that come with them
 * belong to the message in work.
 */
export class MessageReader {
  private readonly bytes = new Uint8Array(HEADER_BYTES + PAYLOAD_MAX);
  private readonly view = new DataView(this.bytes.buffer);
  private have = 0;
  private need = HEADER_BYTES;
  private fds: number[] = [];

  /** @param replies whether replies are expected, and nothing else, or requests */
  constructor(private readonly replies: boolean) {}

  /** How many bytes the message in work still needs; at least 1. */
  get wanted(): number {
    return this.need - this.have;
  }

  /**
   * Takes bytes, and the descriptors that came with them.
   * @param bytes at most `wanted`
   * @returns the message if it is complete
   * @throws VringError EPROTO for a header that makes no sense
   */
  feed(bytes: Uint8Array, fds: readonly number[]): Message | undefined {
    this.fds.push(...fds);
    this.bytes.set(bytes, this.have);
    this.have += bytes.length;
    if (this.have < this.need) return undefined;
    if (this.need === HEADER_BYTES) {
      this.need += this.checkHeader();
      if (this.have < this.need) return undefined;
    }
    const message = {
      request: this.view.getUint32(0, true),
      flags: this.view.getUint32(4, true),
      payload: new DataView(this.bytes.slice(HEADER_BYTES, this.need).buffer),
      fds: this.fds,
    };
    this.have = 0;
    this.need = HEADER_BYTES;
    this.fds = [];
    return message;
  }

  /** The descriptors of a message that will never be complete. */
  abandon(): number[] {
    return this.fds.splice(0);
  }

  /** @returns bytes of the payload */
  private checkHeader(): number {
    const request = this.view.getUint32(0, true);
    const flags = this.view.getUint32(4, true);
    const size = this.view.getUint32(8, true);
    const name = requestName(request);
    if ((flags & FLAG_VERSION) !== VERSION || flags & ~(FLAG_VERSION | FLAG_REPLY | FLAG_NEED_REPLY))
      throw new VringError(
        'EPROTO',
        `${name} has flags 0x${flags.toString(16)}: version ${VERSION} is known`,
      );
    if (((flags & FLAG_REPLY) !== 0) !== this.replies)
      throw new VringError('EPROTO', `${name} is ${this.replies ? 'no' : 'a'} reply`);
    if (size > PAYLOAD_MAX)
      throw new VringError('EPROTO', `${name} has ${size} bytes, more than any message: ${PAYLOAD_MAX}`);
    return size;
  }
}
