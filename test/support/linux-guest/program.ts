import { type ChildProcess, spawn } from 'node:child_process';

/** A program that runs beside a test, and what it says. */
export class Program {
  /** All that it has said, on both of its outputs. */
  said = '';
  private heard = (): void => {};
  private readonly child: ChildProcess;
  /** How it ended: a code, or the name of a signal. */
  end: number | string | undefined;

  constructor(command: string, args: string[]) {
    this.child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const hear = (chunk: Buffer): void => {
      this.said += chunk.toString();
      this.heard();
    };
    this.child.stdout?.on('data', hear);
    this.child.stderr?.on('data', hear);
    this.child.once('error', (error) => {
      this.said += String(error);
      this.end = -1;
      this.heard();
    });
    const kill = (): void => this.kill();
    process.once('exit', kill);
    // When all of its output has come.
    this.child.once('close', (code, signal) => {
      process.off('exit', kill);
      this.end ??= code ?? signal ?? -1;
      this.heard();
    });
  }

  /**
   * Waits for what `find` finds in what was said.
   * @throws Error with all that was said, if the program ends before or `ms` have passed
   */
  async until<T>(find: (said: string) => T | undefined | null, what: string, ms: number): Promise<T> {
    const deadline = Date.now() + ms;
    for (;;) {
      const found = find(this.said);
      if (found !== undefined && found !== null) return found;
      if (this.end !== undefined || Date.now() > deadline)
        throw new Error(
          `${what}: ${this.end === undefined ? 'in vain' : `ended (${this.end})`}\n${this.said}`,
        );
      await this.news(deadline - Date.now());
    }
  }

  private async news(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.heard = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  /** Ends it at once, as a crash would, or politely; see `ended`. */
  kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): void {
    this.child.kill(signal);
  }

  /** Waits for its end. @throws Error if `ms` have passed */
  async ended(ms: number): Promise<number | string> {
    const deadline = Date.now() + ms;
    while (this.end === undefined) {
      if (Date.now() > deadline) throw new Error(`it does not end:\n${this.said}`);
      await this.news(deadline - Date.now());
    }
    return this.end;
  }
}
