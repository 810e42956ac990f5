import { connect, type Socket } from 'node:net';

type Width = 1 | 2 | 4;

const SUFFIX = { 1: 'b', 2: 'w', 4: 'l' } as const;

/** QEMU answers in less than a millisecond, unless it hangs. */
const ANSWER_MS = 20_000;

/** A command that was sent and has no answer yet. */
interface Waiting {
  resolve: (value: string) => void;
  reject: (error: Error) => void;
}

/**
 * QEMU's qtest protocol: a line of text for each access to ports and memory of the machine, and a line in
 * answer. Commands may be sent before earlier ones are answered; they take effect in order.
 */
export class Qtest {
  private readonly waiting: Waiting[] = [];
  private text = '';
  private ended: Error | undefined;

  private constructor(private readonly socket: Socket) {
    socket.setEncoding('utf8');
    socket.on('data', (text) => this.take(String(text)));
    socket.on('error', (error) => this.end(error));
    socket.setTimeout(ANSWER_MS, () => {
      // Without commands there is nothing to answer.
      if (this.waiting.length > 0) socket.destroy(new Error(`QEMU did not answer for ${ANSWER_MS} ms`));
    });
    socket.on('close', () => this.end(new Error('QEMU closed the qtest connection')));
  }

  /** Connects to the socket that QEMU listens on, once. */
  static connect(path: string): Promise<Qtest> {
    return new Promise((resolve, reject) => {
      const socket = connect(path);
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new Qtest(socket));
      });
    });
  }

  /** Sends a command. @returns what follows `OK` in the answer */
  command(line: string): Promise<string> {
    if (this.ended !== undefined) return Promise.reject(this.ended);
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.socket.write(`${line}\n`);
    });
  }

  /** Reads from an I/O port. */
  async in(port: number, width: Width): Promise<number> {
    return Number(await this.command(`in${SUFFIX[width]} ${port}`));
  }

  async out(port: number, width: Width, value: number): Promise<void> {
    await this.command(`out${SUFFIX[width]} ${port} ${value}`);
  }

  /** Reads from a physical address. */
  async read(address: number, width: Width): Promise<number> {
    return Number(await this.command(`read${SUFFIX[width]} ${address}`));
  }

  async write(address: number, width: Width, value: number): Promise<void> {
    await this.command(`write${SUFFIX[width]} ${address} ${value}`);
  }

  async readBytes(address: number, length: number): Promise<Uint8Array> {
    return Buffer.from(await this.command(`b64read ${address} ${length}`), 'base64');
  }

  async writeBytes(address: number, bytes: Uint8Array): Promise<void> {
    await this.command(`b64write ${address} ${bytes.length} ${Buffer.from(bytes).toString('base64')}`);
  }

  close(): void {
    this.socket.destroy();
  }

  private take(text: string): void {
    const lines = (this.text + text).split('\n');
    this.text = lines.pop() ?? '';
    for (const line of lines) {
      // What QEMU says unasked.
      if (line.startsWith('IRQ ')) continue;
      const answer = this.waiting.shift();
      if (line === 'OK') answer?.resolve('');
      else if (line.startsWith('OK ')) answer?.resolve(line.slice(3));
      else answer?.reject(new Error(`qtest answered: ${line}`));
    }
  }

  private end(error: Error): void {
    this.ended ??= error;
    for (const { reject } of this.waiting.splice(0)) reject(this.ended);
  }
}
