// DPDK's testpmd as a peer. Its output is buffered unless it has a terminal, so it gets one.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';

const START_MS = 30_000;

/** What is missing to run it, as an instruction; undefined if nothing is. */
export function missingTestpmd(): string | undefined {
  for (const [program, packages] of [
    ['dpdk-testpmd', 'dpdk-dev'],
    ['script', 'bsdutils'],
  ]) {
    if (spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)
      return `${program} is missing: apt-get install --no-install-recommends ${packages}`;
  }
  return undefined;
}

/** A running testpmd that takes commands. */
export class Testpmd {
  private output = '';
  private ended = false;
  private waiting: (() => void) | undefined;

  private constructor(
    private readonly child: ChildProcess,
    private readonly prefix: string,
  ) {
    child.stdout?.on('data', (chunk: Buffer) => {
      this.output += chunk.toString();
      this.waiting?.();
    });
    // It may be gone while it is told to go.
    child.stdin?.on('error', () => {});
    child.on('exit', () => {
      this.ended = true;
      this.waiting?.();
    });
  }

  /**
   * Starts it and waits for its prompt.
   * @param vdev the port's device, as `--vdev` takes it
   * @param options of testpmd itself
   * @param core that forwards; the other one of 0 and 1 takes commands
   */
  static async start(vdev: string, options = '', mbufs = 8192, core = 1): Promise<Testpmd> {
    const prefix = `vring${process.pid}x${Math.floor(Math.random() * 1e6)}`;
    const command =
      `exec dpdk-testpmd -l 0,1 --main-lcore ${1 - core} --no-huge -m 256 --no-pci --file-prefix=${prefix} --vdev '${vdev}' -- ` +
      `-i --no-flush-rx --total-num-mbufs=${mbufs} ${options}`;
    const child = spawn('script', ['-qfec', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const testpmd = new Testpmd(child, prefix);
    await testpmd.until(/testpmd> $/);
    return testpmd;
  }

  /** Everything that it has printed. */
  get log(): string {
    return this.output;
  }

  /** Waits for a text in what came since `from`. */
  private async until(pattern: RegExp, from = 0): Promise<string> {
    const deadline = Date.now() + START_MS;
    for (;;) {
      const text = this.output.slice(from);
      if (pattern.test(text)) return text;
      if (this.ended || Date.now() > deadline)
        throw new Error(`testpmd ${this.ended ? 'ended' : 'does not answer'}:\n${this.output}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1000);
        this.waiting = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Gives a command and waits for its answer. */
  async command(text: string): Promise<string> {
    const from = this.output.length;
    this.child.stdin?.write(`${text}\n`);
    return this.until(/testpmd> /, from);
  }

  /** The packets that its port has counted. */
  async packets(): Promise<{ received: number; sent: number; missed: number; errors: number }> {
    const text = await this.command('show port stats 0');
    const number = (name: string): number => Number(new RegExp(`${name}:\\s*(\\d+)`).exec(text)?.[1]);
    return {
      received: number('RX-packets'),
      sent: number('TX-packets'),
      missed: number('RX-missed'),
      errors: number('RX-errors') + number('TX-errors'),
    };
  }

  /** Process id of testpmd itself. */
  get pid(): number {
    const found = spawnSync('pgrep', ['-f', `^dpdk-testpmd .*${this.prefix}`]).stdout.toString();
    return Number(found.trim().split('\n')[0]);
  }

  /** Ends it at once, as a crash would. */
  kill(): void {
    process.kill(this.pid, 'SIGKILL');
  }

  /** Ends it and waits until it has gone. */
  async quit(): Promise<void> {
    if (!this.ended) this.child.stdin?.write('stop\nquit\n');
    const timer = setTimeout(() => this.kill(), 10_000);
    while (!this.ended)
      await new Promise<void>((resolve) => {
        this.waiting = resolve;
      });
    clearTimeout(timer);
  }
}
