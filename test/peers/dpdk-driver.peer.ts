import { expect } from 'chai';
import { Testpmd } from '../../bench/dpdk/testpmd.js';
import { Feature, NetFeature } from '../../src/index.js';
import { Backend } from '../../src/vhost-user/backend.js';
import type { ConnectionReport } from '../../src/vhost-user/connection.js';
import { DEADLINE_MS, FRAMES, prepareDpdk } from './dpdk.js';
import { PatternDevice } from './pattern-device.js';

/** Rejects when a peer has stopped to answer, so that everything can still be taken down. */
const deadline = (): Promise<never> =>
  new Promise((_, reject) => {
    setTimeout(() => reject(new Error('the frames do not come')), DEADLINE_MS).unref();
  });

describe("DPDK's driver on our device", function () {
  this.timeout(240_000);

  const place = prepareDpdk(1 << 30);

  const vdev = (socket: string, packed: number, mergeable: number, inOrder: number): string =>
    `net_virtio_user0,path=${socket},queues=1,queue_size=256,packed_vq=${packed},mrg_rxbuf=${mergeable},in_order=${inOrder}`;

  for (const packed of [0, 1])
    for (const mergeable of [0, 1])
      for (const inOrder of [0, 1])
        it(`${packed ? 'packed' : 'split'}, mergeable ${mergeable}, in-order ${inOrder}`, async () => {
          const { engine, socket } = place;
          const max = mergeable ? 4000 : 1514;
          const device = new PatternDevice(FRAMES, max);
          // testpmd 22.11 leaves WRITE in entry n of the indirect table of a packed ring's slot n: a frame of
          // several pieces then has a device-writable piece in its middle, and is refused.
          if (packed && mergeable) device.features.splice(device.features.indexOf(Feature.INDIRECT_DESC), 1);
          const reports: ConnectionReport[] = [];
          let backend: Backend | undefined;
          const failed = new Promise<never>((_, reject) => {
            const closed = (report: ConnectionReport): void => {
              reports.push(report);
              if (report.error !== undefined) reject(report.error);
            };
            backend = new Backend({ engine, socket, device, closed });
          });
          const options = mergeable ? '--max-pkt-len=4000 --enable-scatter' : '';
          const testpmd = await Testpmd.start(vdev(socket, packed, mergeable, inOrder), options, 4096);
          try {
            await testpmd.command('start');
            await Promise.race([device.finished(), failed, deadline()]);
            await testpmd.command('stop');
            expect(await testpmd.packets()).to.deep.equal({
              received: FRAMES,
              sent: FRAMES,
              missed: 0,
              errors: 0,
            });
            expect(device.negotiated.has(Feature.RING_PACKED)).to.equal(packed === 1);
            expect(device.negotiated.has(Feature.IN_ORDER)).to.equal(inOrder === 1);
            expect(device.negotiated.has(NetFeature.MRG_RXBUF)).to.equal(mergeable === 1);
            if (mergeable) expect(device.buffers).to.be.greaterThan(FRAMES);
            else expect(device.buffers).to.equal(FRAMES);
          } finally {
            await testpmd.quit();
            await backend?.close();
          }
          expect(reports.flatMap(({ queues }) => queues.map(({ lost }) => lost))).to.deep.equal([0, 0]);
          const [transmit] = reports[0].queues.filter(({ index }) => index === 1);
          expect(transmit.pushed).to.equal(FRAMES);
          expect(engine.used).to.equal(0);
          console.log(`      ${device.buffers + FRAMES} buffers, ${FRAMES} frames of up to ${max} bytes`);
        });
});
