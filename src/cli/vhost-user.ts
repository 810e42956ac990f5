import { closeSync, fstatSync, openSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { loadEngine } from '../index.js';
import { Backend } from '../vhost-user/backend.js';
import type { ConnectionReport } from '../vhost-user/connection.js';
import type { Device } from '../vhost-user/device.js';
import { Blk } from '../vhost-user/devices/blk.js';
import { NetEcho } from '../vhost-user/devices/net-echo.js';
import { NetReplay } from '../vhost-user/devices/net-replay.js';
import { readCapture } from './capture/capture.js';
import { Failure, systemReason, UsageError } from './errors.js';
import type { Io } from './io.js';
import { count } from './options.js';
import { LiveLine } from './vhost-user/live.js';

interface VhostUserOptions {
  socket: string;
  device: 'net-echo' | 'net-replay' | 'blk';
  client: boolean;
  polling: boolean;
  memory: number;
  pairs: number;
  rounds: number;
  readOnly: boolean;
  engine: 'wasm' | 'typescript';
}

const MIB = 1 << 20;
/** What 32-bit addresses reach, less room for the engine's own state. */
const MEMORY_MAX = 4095;

export function addVhostUser(program: Command, io: Io): void {
  program
    .command('vhost-user')
    .description(
      'be a virtio device for a virtual machine (QEMU) or another user of vhost-user; Ctrl-C ends it',
    )
    .argument('[file]', 'net-replay: capture (pcap or pcapng); blk: disk image')
    .requiredOption('--socket <path>', 'unix socket of the connection')
    .addOption(
      new Option('--device <name>', 'what to be')
        .choices(['net-echo', 'net-replay', 'blk'])
        .makeOptionMandatory(),
    )
    .option('--client', 'connect to a socket where the other side listens', false)
    .option('--polling', 'look for buffers all the time: more throughput, and a whole core', false)
    .option('--memory <MiB>', "most memory of the other side, the machine's RAM", count(MEMORY_MAX), 2048)
    .option('--pairs <n>', 'net-echo: most queue pairs', count(128), 1)
    .option('--rounds <n>', 'net-replay: how often the capture is sent', count(1_000_000_000), 1)
    .option('--read-only', 'blk: refuse to write', false)
    .addOption(new Option('-e, --engine <name>', 'engine').choices(['wasm', 'typescript']).default('wasm'))
    .action((file: string | undefined, options: VhostUserOptions) => serve(file, options, io));
}

async function serve(file: string | undefined, options: VhostUserOptions, io: Io): Promise<void> {
  const { device, close } = await makeDevice(file, options);
  try {
    const memory = new WebAssembly.Memory({
      initial: pages(options.memory),
      maximum: pages(options.memory),
      shared: true,
    });
    const engine = await loadEngine({ engine: options.engine, memory, base: 0 });
    const backend = new Backend({
      engine,
      device,
      socket: options.socket,
      client: options.client,
      polling: options.polling,
      connected: () => io.err('connected'),
      closed: (report) => {
        line.clear();
        io.err(describe(report));
      },
    });
    const line = new LiveLine(io, backend, device);
    io.err(`${options.device} on ${options.socket}${options.client ? '' : ': waiting for a connection'}`);
    await interrupted();
    line.stop();
    await backend.close();
  } finally {
    close();
  }
}

/** Guest memory and a mebibyte of our own. */
const pages = (mebibytes: number): number => ((mebibytes + 1) * MIB) / 65_536;

async function makeDevice(
  file: string | undefined,
  { device, pairs, rounds, readOnly }: VhostUserOptions,
): Promise<{ device: Device; close: () => void }> {
  if (device === 'net-echo') {
    if (file !== undefined) throw new UsageError('net-echo takes no file');
    return { device: new NetEcho(pairs), close: () => {} };
  }
  if (file === undefined)
    throw new UsageError(`${device} needs a file: ${device === 'blk' ? 'a disk image' : 'a capture'}`);
  if (device === 'net-replay') {
    const { frames, damage } = await readCapture(file);
    if (damage !== undefined) throw new Failure(`${file}: at byte ${damage.offset} ${damage.reason}`);
    return { device: new NetReplay(frames, rounds), close: () => {} };
  }
  let fd: number;
  try {
    fd = openSync(file, readOnly ? 'r' : 'r+');
  } catch (error) {
    throw new Failure(`${file}: cannot be opened: ${systemReason(error)}`);
  }
  return { device: new Blk(fd, fstatSync(fd).size, { readOnly }), close: () => closeSync(fd) };
}

function describe({ error, queues }: ConnectionReport): string {
  const sum = (of: (queue: ConnectionReport['queues'][number]) => number): number =>
    queues.reduce((total, queue) => total + of(queue), 0);
  const why = error === undefined ? 'disconnected' : `disconnected: ${error.message}`;
  return (
    `${why}; ${sum(({ pushed }) => pushed)} buffers used, ${sum(({ lost }) => lost)} lost, notifications ` +
    `${sum(({ interruptsSent }) => interruptsSent)} sent, ${sum(({ interruptsSuppressed }) => interruptsSuppressed)} suppressed`
  );
}

/** Resolves at Ctrl-C and at a polite request to end. */
const interrupted = (): Promise<void> =>
  new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
