import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Capture, parseCapture, readCapture } from '../../src/cli/capture/capture.js';
import { Failure } from '../../src/cli/errors.js';
import {
  enhancedPacket,
  interfaceDescription,
  pcap,
  pcapng,
  sectionHeader,
  simplePacket,
  someFrames,
} from './capture-files.js';
import { CAPTURES } from './run.js';

const parse = (bytes: Uint8Array): Capture => parseCapture(bytes, '/somewhere/file.pcap');

function expectFrames(capture: Capture, frames: readonly Uint8Array[]): void {
  expect(capture.damage).to.equal(undefined);
  expect(capture.frames.map((frame) => Buffer.from(frame).toString('hex'))).to.deep.equal(
    frames.map((frame) => Buffer.from(frame).toString('hex')),
  );
  expect(capture.bytes).to.equal(frames.reduce((sum, { length }) => sum + length, 0));
}

describe('captures', () => {
  for (const little of [true, false]) {
    const order = little ? 'little-endian' : 'big-endian';
    for (const nanoseconds of [true, false])
      it(`pcap, ${order}, ${nanoseconds ? 'nanoseconds' : 'microseconds'}`, () => {
        const capture = parse(pcap(someFrames(), { little, nanoseconds }));
        expect(capture.format).to.equal('pcap');
        expect(capture.name).to.equal('file.pcap');
        expectFrames(capture, someFrames());
      });

    it(`pcapng, ${order}: enhanced and simple packet blocks`, () => {
      const capture = parse(pcapng(someFrames(), little));
      expect(capture.format).to.equal('pcapng');
      expectFrames(capture, someFrames());
    });
  }

  it('pcapng: sections of different byte order', () => {
    const file = Buffer.concat([pcapng(someFrames(), true), pcapng(someFrames(), false)]);
    expectFrames(parse(file), [...someFrames(), ...someFrames()]);
  });

  it('pcapng: a simple packet that the snapshot length cut', () => {
    const frame = Uint8Array.from({ length: 40 }, (_, i) => i);
    const file = Buffer.concat([
      sectionHeader(true),
      interfaceDescription(true, 40),
      simplePacket(frame, true, 900),
    ]);
    expectFrames(parse(file), [frame]);
  });

  it('the captures of the repository', async () => {
    const counts = { 'bulk-tcp-1448.pcap': 900, 'small-udp-18.pcap': 2000, 'web-mixed.pcap': 525 };
    for (const [name, frames] of Object.entries(counts)) {
      const capture = await readCapture(join(CAPTURES, name));
      expect(capture.damage, name).to.equal(undefined);
      expect(capture.frames.length, name).to.equal(frames);
      const { length } = await readFile(join(CAPTURES, name));
      expect(capture.bytes, name).to.equal(length - 24 - 16 * frames);
    }
  });

  describe('damage', () => {
    const frames = someFrames();
    const whole = pcap(frames, { little: true, nanoseconds: false });

    it('pcap: every truncation is noticed, and what is before it is kept', () => {
      let at = 24;
      const ends = new Map([[at, 0]]);
      frames.forEach((frame, i) => {
        at += 16 + frame.length;
        ends.set(at, i + 1);
      });
      for (let length = 4; length < whole.length; length += length < 200 ? 1 : 37) {
        const { damage, frames: kept } = parse(whole.subarray(0, length));
        const complete = [...ends].filter(([end]) => end <= length).length - 1;
        expect(kept.length, `${length}`).to.equal(Math.max(0, complete));
        if (ends.has(length)) expect(damage, `${length}`).to.equal(undefined);
        else expect(damage?.offset, `${length}`).to.be.at.most(length);
      }
    });

    it('pcapng: every truncation within a block is noticed', () => {
      const file = pcapng(frames, true);
      const head = Buffer.concat([sectionHeader(true), interfaceDescription(true)]).length + 16;
      const first = head + enhancedPacket(frames[0], true).length;
      for (const length of [5, 11, 20, head - 3, head + 8, head + 20, first - 1])
        expect(parse(file.subarray(0, length)).damage, `${length}`).to.include.keys('offset', 'reason');
      const cut = parse(file.subarray(0, first + 10));
      expect(cut.frames.length).to.equal(1);
      expect(cut.damage?.offset).to.equal(first);
    });

    it('says where, what was expected and what was found', () => {
      const { damage } = parse(whole.subarray(0, 24 + 16 + 50));
      expect(damage).to.deep.equal({
        offset: 40,
        reason: 'expected a frame of 60 bytes, found 50 bytes before the end',
      });
    });

    it('pcap: a captured length that cannot be', () => {
      const file = Uint8Array.from(whole);
      new DataView(file.buffer).setUint32(24 + 8, 0xffffffff, true);
      expect(parse(file).damage).to.deep.equal({
        offset: 32,
        reason: 'expected a captured length of at most 262144, found 4294967295',
      });
    });

    it('pcap: another version', () => {
      const file = Uint8Array.from(whole);
      file[4] = 3;
      expect(parse(file).damage?.reason).to.equal('expected pcap version 2, found version 3');
    });

    it('pcapng: a block of length 0, one that ends differently, a frame beyond its block', () => {
      const file = Buffer.concat([sectionHeader(true), interfaceDescription(true)]);
      const packet = enhancedPacket(frames[0], true);
      for (const [offset, value] of [
        [4, 0],
        [4, packet.length + 1],
        [packet.length - 4, 8],
        [20, 4000],
        [20, 0xffffffff],
      ]) {
        const bad = Buffer.concat([file, packet]);
        bad.writeUInt32LE(value, file.length + offset);
        const { damage, frames: kept } = parse(bad);
        expect(damage?.offset, `${offset} ${value}`).to.be.at.least(file.length);
        expect(kept.length).to.equal(0);
      }
    });

    it('pcapng: a simple packet without an interface', () => {
      const { damage } = parse(Buffer.concat([sectionHeader(true), simplePacket(frames[0], true)]));
      expect(damage?.reason).to.equal('expected an interface description, found a simple packet block first');
    });

    it('no random change makes the parser throw or hang', () => {
      let seed = 1;
      const random = (n: number): number => {
        seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
        return (seed >>> 8) % n;
      };
      for (const file of [whole, pcapng(frames, true), pcapng(frames, false)])
        for (let run = 0; run < 500; run++) {
          const bad = Buffer.from(file);
          for (let change = 0; change < 3; change++) bad[4 + random(bad.length - 4)] = random(256);
          const { frames: kept } = parse(bad.subarray(0, 4 + random(bad.length - 4)));
          expect(kept.length).to.be.at.most(file.length / 12);
        }
    });
  });

  describe('what is no capture', () => {
    const cases: [string, Uint8Array, string][] = [
      ['an empty file', new Uint8Array(0), 'the file is empty'],
      ['three bytes', Uint8Array.of(0xd4, 0xc3, 0xb2), 'only 3 bytes'],
      ['text', Buffer.from('# Captures'), 'found 23 20 43 61'],
      ['a compressed file', Uint8Array.of(0x1f, 0x8b, 8, 0, 0), 'found 1f 8b 08 00'],
    ];
    for (const [name, bytes, found] of cases)
      it(name, () => {
        expect(() => parse(bytes))
          .to.throw(Failure)
          .with.property('message')
          .that.includes('/somewhere/file.pcap')
          .and.includes('at byte 0')
          .and.includes(found);
      });

    it('no file, and a folder', async () => {
      for (const [file, reason] of [
        ['/no/such/file.pcap', 'there is no such file'],
        [CAPTURES, 'it is a folder'],
      ]) {
        const error = await readCapture(file).catch((thrown: Error) => thrown);
        expect(error).to.be.instanceOf(Failure);
        expect((error as Error).message)
          .to.include(file)
          .and.include(reason);
      }
    });
  });
});
