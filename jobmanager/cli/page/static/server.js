// Requests to the server, with the token of the session.

const token = () => sessionStorage.getItem("token") || "";

export async function ask(path, options = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) {
    document.getElementById("sign-in").hidden = false;
    document.getElementById("token").focus();
  }
  return answer;
}

export const refusal = (answer, found) => answer.status === 401
  ? "This needs a token. Enter a line of the server's --token-file at the top of the page, then repeat." : found.error;

export async function read(path) {
  const answer = await ask(path);
  const found = await answer.json();
  if (!answer.ok) throw new Error(refusal(answer, found));
  return found;
}
