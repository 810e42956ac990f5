import { join } from 'node:path';
import { expect } from 'chai';
import { Testpmd } from '../../bench/dpdk/testpmd.js';
import { Feature } from '../../src/index.js';
import { Backend } from '../../src/vhost-user/backend.js';
import type { ConnectionReport } from '../../src/vhost-user/connection.js';
import { NetEcho } from '../../src/vhost-user/devices/net-echo.js';
import { Frontend, type FrontendReport } from '../../src/vhost-user/frontend.js';
import { prepareDpdk } from './dpdk.js';

const FRAMES = 100_000;
const DEADLINE_MS = 60_000;

async function until(true_: () => boolean, what: string): Promise<void> {
  const end = Date.now() + DEADLINE_MS;
  while (!true_()) {
    if (Date.now() > end) throw new Error(`${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe('DPDK that dies in the middle of traffic', function () {
  this.timeout(150_000);

  const place = prepareDpdk(1 << 30);

  for (const [ring, polling] of [
    ['split', false],
    ['packed', true],
  ] as const)
    it(`a driver: reported, nothing lost, the next one is served beside another device (${ring})`, async () => {
      const { engine, folder } = place;
      const device = new NetEcho();
      const other = new NetEcho();
      const reports: ConnectionReport[] = [];
      const socket = join(folder, 'a');
      const closed = (report: ConnectionReport): void => void reports.push(report);
      const backend = new Backend({ engine, socket, device, polling, closed });
      const idle = new Backend({ engine, socket: join(folder, 'b'), device: other });
      try {
        for (let round = 1; round <= 2; round++) {
          const before = device.counts.frames;
          const testpmd = await Testpmd.start(
            `net_virtio_user0,path=${socket},queues=1,queue_size=256,packed_vq=${ring === 'packed' ? 1 : 0}`,
          );
          await testpmd.command('set fwd flowgen');
          await testpmd.command('start');
          await until(
            () => device.counts.frames - before >= FRAMES,
            `round ${round}: echo of ${FRAMES} frames`,
          );
          testpmd.kill();
          await until(() => reports.length === round, `round ${round}: end of the connection`);
          await testpmd.quit();
          const { queues, error } = reports[round - 1];
          expect(error).to.equal(undefined);
          expect(queues.map(({ index, lost }) => ({ index, lost }))).to.deep.equal([
            { index: 0, lost: 0 },
            { index: 1, lost: 0 },
          ]);
          expect(queues[1].pushed - queues[0].pushed).to.equal(0);
          expect(queues[1].pushed).to.be.at.least(FRAMES);
          expect(engine.used).to.equal(0);
          console.log(`      ${queues[0].pushed + queues[1].pushed} buffers before its end`);
        }
        expect(device.counts.dropped).to.equal(0);
      } finally {
        await backend.close();
        await idle.close();
      }
    });

  it('a device: reported, and every buffer that it had is named', async () => {
    const { engine, socket } = place;
    const testpmd = await Testpmd.start(`net_vhost0,iface=${socket},queues=1`);
    let report: FrontendReport | undefined;
    const frontend = await Frontend.connect({
      engine,
      socket,
      memory: 1 << 22,
      features: [Feature.VERSION_1],
      closed: (r) => {
        report = r;
      },
    });
    const receive = await frontend.startQueue({ index: 0, size: 64 });
    const transmit = await frontend.startQueue({ index: 1, size: 64 });
    await testpmd.command('start');
    const at = frontend.alloc(128 * 2048, 64);
    const mine = { receive: new Set<number>(), transmit: new Set<number>() };
    let moved = 0;
    const turn = (): void => {
      for (let i = 0; i < 64; i++) {
        if (!mine.receive.has(i) && receive.add([], [{ address: at + i * 2048, length: 2048 }], i))
          mine.receive.add(i);
        if (!mine.transmit.has(i) && transmit.add([{ address: at + (64 + i) * 2048, length: 76 }], [], i))
          mine.transmit.add(i);
      }
      receive.kick();
      transmit.kick();
      for (const [queue, tokens] of [
        [receive, mine.receive],
        [transmit, mine.transmit],
      ] as const)
        for (let got = queue.getBuf(); got !== undefined; got = queue.getBuf()) {
          expect(tokens.delete(got.token)).to.equal(true);
          moved++;
        }
    };
    const end = Date.now() + DEADLINE_MS;
    for (let killed = false; report === undefined; await new Promise((resolve) => setImmediate(resolve))) {
      if (Date.now() > end) throw new Error(`${moved} buffers moved`);
      turn();
      if (!killed && moved >= FRAMES) {
        testpmd.kill();
        killed = true;
      }
    }
    await testpmd.quit();
    const left = new Map(report.queues.map(({ index, tokens }) => [index, tokens.sort((a, b) => a - b)]));
    expect(left.get(0)).to.deep.equal([...mine.receive].sort((a, b) => a - b));
    expect(left.get(1)).to.deep.equal([...mine.transmit].sort((a, b) => a - b));
    expect(() => receive.getBuf()).to.throw('released');
    expect(engine.used).to.equal(0);
    console.log(`      ${moved} buffers before its end`);
  });
});
