import { VringError } from '../errors.js';

/** Throws EINVAL unless `value` is an integer from `min` to `max`; returns it. */
export function integer(value: unknown, what: string, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw new VringError('EINVAL', `${what} must be an integer from ${min} to ${max}, got ${show(value)}`);
  return value;
}

/** Short form of any value for an error message. */
export function show(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null)
    return `an object (${value.constructor?.name ?? 'Object'})`;
  return String(value);
}
