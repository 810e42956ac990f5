import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Capture, parseCapture, readCapture } from '../../src/cli/capture/capture.js';
import { Failure } from '../../src/cli/errors.js';
import { collectFrames, type Frames } from '../../src/cli/replay/frames.js';
import { LoopbackDevice } from '../../src/cli/replay/loopback-device.js';
import { measure, requireSound } from '../../src/cli/replay/measure.js';
import { type Load, Replay } from '../../src/cli/replay/replay.js';
import { splitPacket } from '../../src/cli/replay/split.js';
import { pcap, pcapng, someFrames } from './capture-files.js';
import { CAPTURES, inFolder, vring } from './run.js';

const ENGINES = ['wasm', 'typescript'] as const;
const RINGS = ['split', 'packed'] as const;
const OPTIONS: Load = { size: 256, burst: 32, segments: 1, eventIdx: true, indirect: true };

const small = (): Frames =>
  collectFrames([parseCapture(pcap(someFrames(), { little: true, nanoseconds: false }), 'small.pcap')]);

describe('replay', () => {
  let captures: Capture[];
  before(async () => {
    const names = (await readdir(CAPTURES)).filter((name) => name.endsWith('.pcap'));
    captures = await Promise.all(names.map((name) => readCapture(join(CAPTURES, name))));
  });

  for (const ring of RINGS)
    for (const name of ENGINES)
      describe(`${ring} ring, ${name}`, () => {
        const create = (frames: Frames, options: Load = OPTIONS, Device?: typeof LoopbackDevice) =>
          Replay.create(name, frames, { ...options, ring }, Device);

        for (const segments of [1, 2, 5])
          for (const eventIdx of [true, false])
            for (const indirect of [true, false]) {
              const title = `the captures come back, ${segments} segments, event index ${eventIdx}, indirect ${indirect}`;
              it(title, async () => {
                const options = { ...OPTIONS, segments, eventIdx, indirect };
                const replay = await create(collectFrames(captures), options);
                for (let run = 0; run < 2; run++) {
                  const { packets, mismatches, notifications } = replay.run(1);
                  expect(packets).to.equal(3425);
                  expect(mismatches).to.equal(0);
                  expect(notifications.kicksSent).to.be.greaterThan(0);
                  expect(notifications.interruptsSent).to.be.greaterThan(0);
                }
              });
            }

        for (const [size, burst] of [
          [1, 1],
          [2, 2],
          [8, 3],
          [4096, 128],
          ...(ring === 'packed' ? [[7, 5]] : []),
        ])
          it(`a ring of ${size}, bursts of ${burst}`, async () => {
            const replay = await create(collectFrames(captures), { ...OPTIONS, size, burst });
            expect(replay.run(1).mismatches).to.equal(0);
          });

        it('the event index suppresses what flags cannot', async () => {
          const options = { ...OPTIONS, burst: 8 };
          const on = (await create(collectFrames(captures), options)).run(1).notifications;
          const off = (await create(collectFrames(captures), { ...options, eventIdx: false })).run(
            1,
          ).notifications;
          expect(on.kicksSent).to.be.lessThan(off.kicksSent);
          expect(on.interruptsSent).to.be.lessThan(off.interruptsSent);
        });

        // A check that finds nothing proves nothing: each of these must be found.
        it('a wrong byte, a lost byte, a byte too many, a write behind the segment, a write to the sent packet', async () => {
          const faults: ((device: FaultyDevice, i: number, written: number) => number)[] = [
            (device, i, written) => {
              device.bytes[device.target(i) + written - 1] ^= 1;
              return written;
            },
            (_device, _i, written) => written - 1,
            (_device, _i, written) => written + 1,
            (device, i, written) => {
              device.bytes[device.target(i) + written] ^= 1;
              return written;
            },
            (device, i, written) => {
              device.bytes[device.source(i) + written - 1] ^= 1;
              return written;
            },
          ];
          for (const [index, fault] of faults.entries()) {
            class Device extends FaultyDevice {
              protected override fault(i: number, written: number): number {
                return fault(this, i, written);
              }
            }
            const replay = await create(small(), { ...OPTIONS, size: 4, burst: 4 }, Device);
            expect(replay.run(1).mismatches, `fault ${index}`).to.equal(1);
          }
        });

        it('a packet that is lost', async () => {
          class Device extends LoopbackDevice {
            private runs = 0;
            override run(): void {
              if (this.runs++ === 1) this.receive.detach(this.receive.pop() ?? { id: -1 });
              super.run();
            }
          }
          const replay = await create(small(), { ...OPTIONS, size: 2, burst: 2 }, Device);
          expect(() => replay.run(3)).to.throw('the replay stalled');
        });
      });

  it('segments: header, and the rest in parts of equal size that are never empty', () => {
    expect(splitPacket(72, 1)).to.deep.equal([72]);
    expect(splitPacket(72, 2)).to.deep.equal([12, 60]);
    expect(splitPacket(72, 4)).to.deep.equal([12, 20, 20, 20]);
    expect(splitPacket(14, 5)).to.deep.equal([12, 1, 1]);
    expect(splitPacket(12, 5)).to.deep.equal([12]);
  });

  it('measure: rounds in turn, ratios within a round', async () => {
    const order: string[] = [];
    const fake = (
      name: 'wasm' | 'typescript',
      times: number[],
      { mismatches = 0, ring = 'split' }: { mismatches?: number; ring?: 'split' | 'packed' } = {},
    ) => {
      let run = -1; // the warm-up
      return {
        name,
        ring,
        async run(passes: number) {
          order.push(`${ring} ${name}`);
          const ns = (times[run] ?? 1) * 7 * passes;
          run++;
          return {
            ns,
            packets: 7 * passes,
            mismatches,
            notifications: { kicksSent: 1, kicksSuppressed: 2, interruptsSent: 3, interruptsSuppressed: 4 },
          };
        },
      };
    };
    const { report, tallies } = await measure(
      [
        fake('wasm', [10, 20, 30]),
        fake('typescript', [20, 60, 45]),
        fake('typescript', [10, 20, 90], { ring: 'packed' }),
      ],
      small(),
      { rounds: 3, passes: 2, params: {} },
      () => {},
    );
    const turn = ['split wasm', 'split typescript', 'packed typescript'];
    expect(order.slice(3)).to.deep.equal([...turn, ...turn, ...turn]);
    expect(report.ratios).to.deep.equal([
      {
        name: 'wasm/typescript',
        engine: 'both',
        ring: 'split',
        params: { passes: 2 },
        median: 2,
        min: 1.5,
        max: 3,
        reported: null,
      },
      {
        name: 'packed/split',
        engine: 'typescript',
        ring: 'both',
        params: { passes: 2 },
        median: 2,
        min: 0.5,
        max: 3,
        reported: null,
      },
    ]);
    const time = report.results.find(({ name, engine }) => name === 'time' && engine === 'wasm');
    expect(report.results.filter(({ ring }) => ring === 'packed')).to.have.length(report.results.length / 3);
    expect(time).to.include({ unit: 'ns/packet', median: 20, min: 10, max: 30, runs: 3 });
    expect(() => requireSound(tallies)).not.to.throw();
    const wrong = await measure(
      [fake('wasm', [1], { mismatches: 2, ring: 'packed' })],
      small(),
      { rounds: 1, passes: 1, params: {} },
      () => {},
    );
    expect(() => requireSound(wrong.tallies)).to.throw(
      Failure,
      'wasm, packed ring: 4 buffers came back wrong',
    );
  });

  describe('command', () => {
    const tiny = ['--rounds', '2', '--passes', '1'];

    it('replays files of all formats on both engines, with a table and JSON', async function () {
      this.timeout(300_000);
      await inFolder(async (folder) => {
        const files = {
          'a.pcap': pcap(someFrames(), { little: false, nanoseconds: true }),
          'b.pcapng': pcapng(someFrames(), false),
        };
        for (const [name, bytes] of Object.entries(files)) await writeFile(join(folder, name), bytes);
        const json = join(folder, 'numbers.json');
        const { code, out, err } = await vring(
          'replay',
          ...Object.keys(files).map((name) => join(folder, name)),
          ...tiny,
          '--segments',
          '2',
          '--json',
          json,
        );
        expect(err).to.equal('');
        expect(code).to.equal(0);
        for (const ring of RINGS) {
          const table = out.slice(out.indexOf(`${ring} ring `));
          expect(table).to.match(/^.*\n─+\npackets +28 +28\n/);
          expect(out).to.match(new RegExp(`Wasm : TypeScript, ${ring} ring ×\\d`));
        }
        expect(out.match(/mismatches +0 +0\n/g)).to.have.length(2);
        expect(out).to.match(/Packed : split, wasm ×\d/);

        const report = JSON.parse(await readFile(json, 'utf8'));
        expect(report).to.have.all.keys('suite', 'machine', 'results', 'ratios');
        expect(report.suite).to.equal('replay');
        expect(report.machine).to.have.all.keys('cpu', 'cores', 'node', 'v8', 'platform');
        for (const result of report.results)
          expect(result).to.have.all.keys(
            'name',
            'engine',
            'ring',
            'unit',
            'median',
            'min',
            'max',
            'runs',
            'params',
          );
        expect(report.results.map(({ name }: { name: string }) => name).slice(0, 10)).to.deep.equal([
          'time',
          'packet-rate',
          'bit-rate',
          'packets',
          'bytes',
          'kicksSent',
          'kicksSuppressed',
          'interruptsSent',
          'interruptsSuppressed',
          'mismatches',
        ]);
        expect(report.results[0].params).to.include({ files: 'a.pcap, b.pcapng', segments: 2, passes: 1 });
        expect(
          report.ratios.map(({ name, engine, ring }: Record<string, string>) => [name, engine, ring]),
        ).to.deep.equal([
          ['wasm/typescript', 'both', 'split'],
          ['wasm/typescript', 'both', 'packed'],
          ['packed/split', 'wasm', 'both'],
          ['packed/split', 'typescript', 'both'],
        ]);
        expect(JSON.stringify(report)).not.to.include(folder);
      });
    });

    it('replays through one ring of any size on one engine', async () => {
      await inFolder(async (folder) => {
        const file = join(folder, 'a.pcap');
        await writeFile(file, pcap(someFrames(), { little: true, nanoseconds: false }));
        const options = ['--ring', 'packed', '--size', '35', '--engine', 'typescript', ...tiny];
        const { code, out, err } = await vring('replay', file, ...options);
        expect({ code, err }).to.deep.equal({ code: 0, err: '' });
        expect(out)
          .to.match(/^packed ring +typescript\n/)
          .and.not.to.match(/split|wasm|×/i);
        expect(out).to.match(/mismatches +0\n/);
      });
    });

    it('reports damage with what was read before it', async () => {
      await inFolder(async (folder) => {
        const file = join(folder, 'cut.pcap');
        await writeFile(file, pcap(someFrames(), { little: true, nanoseconds: false }).subarray(0, 180));
        const { code, out, err } = await vring('replay', file);
        expect(code).to.equal(1);
        expect(out).to.equal('');
        expect(err).to.match(/cut\.pcap: at byte 177 expected a record header of 16 bytes, found 3 bytes/);
        expect(err).to.include('2 frames (121 bytes) before it are sound');
      });
    });

    it('says what is wrong in one line, with exit code 1 or 2 and no stack', async () => {
      const file = join(CAPTURES, 'web-mixed.pcap');
      await inFolder(async (folder) => {
        const empty = join(folder, 'empty.pcap');
        const noFrames = join(folder, 'none.pcap');
        await writeFile(empty, '');
        await writeFile(noFrames, pcap([], { little: true, nanoseconds: false }));
        const cases: [string[], number, RegExp][] = [
          [['replay'], 2, /missing required argument 'file'/],
          [
            ['replay', file, '--size', '100'],
            2,
            /a split ring has a power of two .*, not 100: .*--ring packed/,
          ],
          [['replay', file, '--size', '100', '--ring', 'split'], 2, /a power of two of descriptors, not 100/],
          [
            ['replay', file, '--size', '65536'],
            2,
            /'65536' is invalid\. Give a whole number from 1 to 32768/,
          ],
          [['replay', file, '--ring', 'round'], 2, /Allowed choices are split, packed, both/],
          [['replay', file, '--burst', '0'], 2, /'0' is invalid\. Give a whole number from 1/],
          [['replay', file, '--burst', 'NaN'], 2, /'NaN' is invalid/],
          [['replay', file, '--burst', '1e1'], 2, /'1e1' is invalid/],
          [['replay', file, '--rounds', '-1'], 2, /'-1' is invalid/],
          [['replay', file, '--rounds', ''], 2, /'' is invalid/],
          [['replay', file, '--engine', 'native'], 2, /Allowed choices are wasm, typescript, both/],
          [['replay', file, '--sise', '1'], 2, /unknown option '--sise'\n\(Did you mean --size\?\)/],
          [['replay', file, '--size', '16'], 2, /a queue of 16 holds 16 packets, a burst has 32/],
          [
            ['replay', file, '--segments', '3', '--size', '2', '--burst', '1'],
            2,
            /3 segments does not fit a queue of 2/,
          ],
          [['replay', join(folder, 'no')], 1, /cannot be read: there is no such file/],
          [['replay', empty], 1, /the file is empty/],
          [['replay', noFrames], 1, /there is no frame to replay/],
          [
            ['replay', file, '--json', join(folder, 'no', 'x.json')],
            1,
            /x\.json: cannot be written: there is no/,
          ],
          [['replay', file, '--json', folder], 1, /cannot be written: it is a folder/],
          [['repaly', file], 2, /unknown command 'repaly'\n\(Did you mean replay\?\)/],
          [['start', 'x'], 2, /too many arguments/],
        ];
        for (const [argv, expected, message] of cases) {
          const { code, out, err } = await vring(...argv);
          expect(err, argv.join(' ')).to.match(message);
          expect(err.trim().split('\n').length, err).to.be.at.most(2);
          expect(err).not.to.match(/\n\s+at /);
          expect(code, argv.join(' ')).to.equal(expected);
          expect(out).to.equal('');
        }
      });
    });

    it('--version and --help', async () => {
      expect(await vring('--version')).to.deep.equal({ code: 0, out: '1.2.3\n', err: '' });
      const { code, out, err } = await vring('--help');
      expect({ code, err }).to.deep.equal({ code: 0, err: '' });
      for (const command of ['start', 'replay', 'bench']) expect(out).to.include(command);
    });
  });
});

/** Does something wrong to the fourth packet. */
class FaultyDevice extends LoopbackDevice {
  private packets = 0;

  get bytes(): Uint8Array {
    return this.u8;
  }

  target(i: number): number {
    return this.received.address(this.received.first(i));
  }

  source(i: number): number {
    return this.sent.address(this.sent.first(i));
  }

  protected override copy(i: number): number {
    const written = super.copy(i);
    return this.packets++ === 3 ? this.fault(i, written) : written;
  }

  protected fault(_i: number, written: number): number {
    return written;
  }
}
