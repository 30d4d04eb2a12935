import { readFileSync } from "node:fs";
import * as z from "zod";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import { PROFILES } from "../../simulator/hardware-profile.ts";
import { CommandFailure, messageOf } from "../command.ts";

const Time = z.number().min(0).max(60_000);
const Count = z.int().min(1).max(100_000_000);

/** A profile on file; see `HardwareProfile` for what each figure is. */
const ProfileFile = z.strictObject({
  name: z.string().min(1).max(200),
  source: z.string().min(1).max(500),
  weightsMs: Time,
  kvTokenMs: Time,
  tokenMs: Time,
  halfEfficiencyTokens: z.number().min(0),
  tileTokens: Count,
  attendedPairMs: Time,
  launchMs: Time,
  sequenceMs: Time,
  noiseRatio: z.number().min(0).max(1),
  stepsPerStall: Count,
  stallMs: Time,
  blockTokens: Count,
  blockCount: Count,
  sequencesMax: Count,
  batchTokensMax: Count,
  queueMax: Count,
  contextTokens: Count,
});

/** Finds a profile by its name, or reads it from a file. Throws a `CommandFailure`. */
export function findProfile(nameOrFile: string): HardwareProfile {
  const known = Object.hasOwn(PROFILES, nameOrFile) ? PROFILES[nameOrFile] : undefined;
  if (known !== undefined) return known;
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(nameOrFile, "utf8"));
  } catch (error) {
    const names = Object.keys(PROFILES).join(", ");
    throw new CommandFailure(
      `Expected a file, or one of ${names}, found "${nameOrFile}": ${messageOf(error)}`,
    );
  }
  const profile = ProfileFile.safeParse(found);
  if (profile.success) return profile.data;
  const faults = profile.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new CommandFailure(`${nameOrFile} is no profile: ${faults.join("; ")}`);
}
