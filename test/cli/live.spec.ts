import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { LiveLine } from '../../src/cli/vhost-user/live.js';
import { type DeviceQueue, type DriverQueue, Feature } from '../../src/index.js';
import type { Device } from '../../src/vhost-user/device.js';
import { forEachEngine } from '../support/engines.js';

/** What a terminal shows in the line after all that was written: the text since it was cleared the last time. */
const CLEARED = '\x1b[2K\x1b[1G';
const shown = (written: string): string => written.slice(written.lastIndexOf(CLEARED) + CLEARED.length);

describe('status line of vring vhost-user', () => {
  const lines: LiveLine[] = [];
  afterEach(() => {
    for (const line of lines.splice(0)) line.stop();
  });

  /** A line on a terminal of `columns`, with a clock that is set by hand. */
  function make(columns: number | undefined, counts?: Record<string, number>) {
    const terminal = new PassThrough();
    let written = '';
    terminal.on('data', (chunk: Buffer) => {
      written += chunk.toString();
    });
    const said: string[] = [];
    const io = {
      out: (text: string) => void said.push(text),
      err: (text: string) => void said.push(text),
      ...(columns !== undefined && { progress: terminal as unknown as NodeJS.WriteStream }),
      columns: columns ?? 80,
    };
    const backend: { queues: { index: number; queue: DeviceQueue }[] } = { queues: [] };
    const clock = { now: 1000 };
    const line = new LiveLine(io, backend, { counts } as unknown as Device, () => clock.now);
    lines.push(line);
    return { line, backend, clock, said, text: () => shown(written), written: () => written };
  }

  forEachEngine((load) => {
    for (const ring of ['split', 'packed'] as const)
      describe(`${ring} ring`, () => {
        let driver: DriverQueue;
        let device: DeviceQueue;
        let address: number;

        beforeEach(async () => {
          const host = await load({ size: 2 ** 16 });
          const options = { ring, size: 8, features: [Feature.VERSION_1] };
          driver = host.driverQueue(options);
          device = host.deviceQueue({ ...options, areas: driver.areas, interrupt: () => {} });
          address = host.alloc(16);
        });

        const add = (n: number): void => {
          for (let i = 0; i < n; i++) driver.add([{ address, length: 16 }], [], i);
        };
        /** The device uses `n` buffers, each with a notification if the driver wants them. */
        const use = (n: number): void => {
          for (let i = 0; i < n; i++) {
            const element = device.pop();
            if (element === undefined) throw new Error('no buffer');
            device.push(element, 0);
          }
          while (driver.getBuf() !== undefined);
        };

        it('tells the rate since the line before, what waits, notifications and the counts of the device', () => {
          const counts = { frames: 0, dropped: 7 };
          const { line, backend, clock, text } = make(200, counts);
          backend.queues = [{ index: 1, queue: device }];
          add(5);
          use(3);
          // One is with the device, one waits.
          device.pop();
          clock.now += 500;
          counts.frames = 3;
          line.show();
          expect(text()).to.equal(
            '6 buffers/s · waiting 1: 2/8 · notifications 3 sent 0 suppressed · frames 3 dropped 7',
          );
          driver.disableCallbacks();
          use(1);
          clock.now += 1000;
          line.show();
          expect(text()).to.equal(
            '1 buffers/s · waiting 1: 1/8 · notifications 3 sent 1 suppressed · frames 3 dropped 7',
          );
        });

        it('starts to count anew with a new connection, and shows nothing without one', async () => {
          const { line, backend, clock, text } = make(200);
          add(4);
          use(4);
          backend.queues = [{ index: 0, queue: device }];
          clock.now += 1000;
          line.show();
          expect(text()).to.match(/^4 buffers\/s · waiting 0: 0\/8/);

          const host = await load({ size: 2 ** 16 });
          const options = { ring, size: 4, features: [Feature.VERSION_1] };
          driver = host.driverQueue(options);
          device = host.deviceQueue({ ...options, areas: driver.areas, interrupt: () => {} });
          address = host.alloc(16);
          add(3);
          use(3);
          backend.queues = [{ index: 0, queue: device }];
          clock.now += 1000;
          line.show();
          expect(text()).to.match(/^3 buffers\/s · waiting 0: 0\/4/);

          backend.queues = [];
          line.show();
          expect(text()).to.equal('');
        });

        it('fits the terminal, and goes when it is stopped', () => {
          const { line, backend, clock, text } = make(20);
          backend.queues = [
            { index: 0, queue: device },
            { index: 1, queue: device },
          ];
          clock.now += 1000;
          line.show();
          expect(text()).to.equal('0 buffers/s · waiti');
          line.stop();
          expect(text()).to.equal('');
        });

        it('writes nothing where nobody watches', () => {
          const { line, backend, clock, written, said } = make(undefined);
          backend.queues = [{ index: 0, queue: device }];
          clock.now += 1000;
          line.show();
          line.clear();
          line.stop();
          expect(written()).to.equal('');
          expect(said).to.deep.equal([]);
        });
      });
  });
});
