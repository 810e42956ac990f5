import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../src/cli/errors.js';
import { machine, type Ratio, type Report, type Result, spread } from '../src/cli/report.js';
import { cpuTime } from './dpdk/cpu.js';
import { Ours } from './dpdk/ours.js';
import { missingTestpmd, Testpmd } from './dpdk/testpmd.js';
import type { Chart, Suite, SuiteOptions, Watch } from './harness/suite.js';

const RINGS = ['split', 'packed'] as const;
const CONTENDERS = ['vring', 'testpmd'] as const;
/** The contender's core, and that of the driver. */
const CORE = 0;
const DRIVER_CORE = 1;
const FULL = { lengths: [64, 1514], runs: 5, runMs: 2000, warmUpMs: 2000 };
const QUICK = { lengths: [64, 1514], runs: 2, runMs: 1000, warmUpMs: 1000 };

/** Of processor time. */
const UNIT = 'ns/frame';
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Contender {
  readonly pid: number;
  quit(): Promise<void>;
}

/**
 * Our network device that echoes against the one of DPDK (net_vhost in testpmd's io mode), under the same
 * driver: DPDK's virtio-user in flowgen mode, which takes what comes and sends as much as it can. What is
 * counted is the processor time of the contender's process for each frame that has come back: both directions,
 * on one core. Both look for buffers all the time, so a contender that is faster than the driver also counts
 * the time in which it finds nothing.
 */
export const dpdk: Suite = {
  name: 'dpdk',
  about: "our network device against DPDK's, driven by DPDK's driver (needs dpdk-testpmd)",
  onRequest: true,

  async run({ quick }: SuiteOptions, watch: Watch): Promise<Report> {
    const missing = missingTestpmd();
    if (missing !== undefined) throw new Failure(missing);
    const { lengths, runs, runMs, warmUpMs } = quick ? QUICK : FULL;
    watch.start(RINGS.length * lengths.length * CONTENDERS.length * runs);
    const results: Result[] = [];
    const ratios: Ratio[] = [];
    for (const ring of RINGS)
      for (const length of lengths) {
        const times: Record<(typeof CONTENDERS)[number], number[]> = { vring: [], testpmd: [] };
        for (let run = 0; run < runs; run++)
          for (const name of CONTENDERS) {
            times[name].push(await measure(name, ring, length, warmUpMs, runMs));
            watch.step(`${ring}, ${length} bytes`);
          }
        const params = { length };
        for (const name of CONTENDERS)
          results.push({
            name,
            engine: name === 'vring' ? 'wasm' : 'none',
            ring,
            unit: UNIT,
            ...spread(times[name]),
            runs,
            params,
          });
        const values = times.vring.map((ns, run) => times.testpmd[run] / ns);
        ratios.push({
          name: 'vring/testpmd',
          engine: 'wasm',
          ring,
          params,
          ...spread(values),
          reported: null,
        });
      }
    return { suite: 'dpdk', machine: machine(), results, ratios };
  },

  charts: ({ results }: Report): Chart[] =>
    RINGS.map((ring) => ({
      title: `Echo, ${ring} ring`,
      subtitle: 'processor time, both directions',
      x: 'length',
      label: 'bytes of a frame',
      results: results.filter((result) => result.ring === ring),
    })),
};

/** @returns nanoseconds of processor time for each frame */
async function measure(
  name: (typeof CONTENDERS)[number],
  ring: (typeof RINGS)[number],
  length: number,
  warmUpMs: number,
  runMs: number,
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'vring-'));
  const socket = join(folder, 's');
  let contender: Contender | undefined;
  let driver: Testpmd | undefined;
  try {
    if (name === 'vring') contender = await Ours.start(socket, CORE);
    else {
      const testpmd = await Testpmd.start(`net_vhost0,iface=${socket},queues=1`, '', 8192, CORE);
      contender = testpmd;
      await testpmd.command('start');
    }
    driver = await Testpmd.start(
      `net_virtio_user0,path=${socket},queues=1,queue_size=1024,packed_vq=${ring === 'packed' ? 1 : 0}`,
      '',
      8192,
      DRIVER_CORE,
    );
    await driver.command('set fwd flowgen');
    await driver.command(`set txpkts ${length}`);
    await driver.command('start');
    await sleep(warmUpMs);
    const { pid } = contender;
    const before = (await driver.packets()).received;
    const start = cpuTime(pid);
    await sleep(runMs);
    const frames = (await driver.packets()).received - before;
    const ns = cpuTime(pid) - start;
    if (frames === 0) throw new Failure(`no frame came back from ${name}:\n${driver.log}`);
    return ns / frames;
  } finally {
    await driver?.quit();
    await contender?.quit();
    rmSync(folder, { recursive: true });
  }
}
