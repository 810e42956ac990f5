// Capture files in all the shapes that there are, written by the test.

export interface PcapShape {
  little: boolean;
  nanoseconds: boolean;
}

const ETHERNET = 1;
const SNAP_LENGTH = 65535;

/** Bytes of numbers of 16 or 32 bits, and of other bytes. */
class Writer {
  private readonly parts: Uint8Array[] = [];
  constructor(private readonly little: boolean) {}

  u16(value: number): this {
    const view = new DataView(new ArrayBuffer(2));
    view.setUint16(0, value, this.little);
    return this.bytes(new Uint8Array(view.buffer));
  }

  u32(value: number): this {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, value, this.little);
    return this.bytes(new Uint8Array(view.buffer));
  }

  bytes(bytes: Uint8Array): this {
    this.parts.push(bytes);
    return this;
  }

  pad(multiple: number): this {
    return this.bytes(new Uint8Array((multiple - (this.end().length % multiple)) % multiple));
  }

  end(): Uint8Array {
    return Buffer.concat(this.parts);
  }
}

export function pcap(frames: readonly Uint8Array[], { little, nanoseconds }: PcapShape): Uint8Array {
  const file = new Writer(little)
    .u32(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4)
    .u16(2)
    .u16(4)
    .u32(0)
    .u32(0)
    .u32(SNAP_LENGTH)
    .u32(ETHERNET);
  for (const frame of frames) file.u32(1).u32(2).u32(frame.length).u32(frame.length).bytes(frame);
  return file.end();
}

/** One block of a pcapng file. */
export function block(type: number, body: Uint8Array, little: boolean): Uint8Array {
  const padded = new Writer(little).bytes(body).pad(4).end();
  const length = padded.length + 12;
  return new Writer(little).u32(type).u32(length).bytes(padded).u32(length).end();
}

export const sectionHeader = (little: boolean): Uint8Array =>
  block(
    0x0a0d0d0a,
    new Writer(little).u32(0x1a2b3c4d).u16(1).u16(0).u32(0xffffffff).u32(0xffffffff).end(),
    little,
  );

/** With a name and a resolution of nanoseconds among its options. */
export const interfaceDescription = (little: boolean, snapLength = SNAP_LENGTH): Uint8Array =>
  block(
    1,
    new Writer(little)
      .u16(ETHERNET)
      .u16(0)
      .u32(snapLength)
      .u16(2)
      .u16(4)
      .bytes(Buffer.from('eth0'))
      .u16(9)
      .u16(1)
      .bytes(Uint8Array.of(9, 0, 0, 0))
      .u32(0)
      .end(),
    little,
  );

export const enhancedPacket = (frame: Uint8Array, little: boolean): Uint8Array =>
  block(
    6,
    new Writer(little).u32(0).u32(1).u32(2).u32(frame.length).u32(frame.length).bytes(frame).end(),
    little,
  );

export const simplePacket = (frame: Uint8Array, little: boolean, original = frame.length): Uint8Array =>
  block(3, new Writer(little).u32(original).bytes(frame).end(), little);

/** A section with one interface and all frames, simple and enhanced packet blocks in turn. */
export function pcapng(frames: readonly Uint8Array[], little: boolean): Uint8Array {
  return Buffer.concat([
    sectionHeader(little),
    interfaceDescription(little),
    block(4, new Uint8Array(4), little), // name resolution: to be skipped
    ...frames.map((frame, i) => (i % 2 === 0 ? enhancedPacket(frame, little) : simplePacket(frame, little))),
  ]);
}

/** Frames of odd and even lengths, an empty one among them. */
export const someFrames = (): Uint8Array[] =>
  [60, 61, 0, 1, 1514, 66, 13].map((length, i) =>
    Uint8Array.from({ length }, (_, at) => (at * 7 + i) & 0xff),
  );
